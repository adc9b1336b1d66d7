"""Page format shared by broker, client and Spark: page bodies, their columns and their wire frames.

``format`` describes the layout. The package needs the standard library and protobuf only.
"""
