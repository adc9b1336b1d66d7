"""Page format shared by broker, client and Spark: the body of a page, its columns, and its frames on the wire.

``format`` describes the layout. The package needs the standard library and protobuf only.
"""
