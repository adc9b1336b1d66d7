"""Jobs of a user, run by one version of Spark. Prints one JSON object; the matrix has the assertions.

python jobs.py ENDPOINT FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ROWS = 1_000


def main(endpoint: str, folder: Path) -> dict[str, Any]:
    """Write and read in every way that this version of Spark has."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    import pyspark
    from pyspark.sql import functions as F

    from forebay.spark.atomic_write import Write, write_atomically
    from forebay.spark.errors import ForebaySparkError
    from forebay.spark.session import local_session

    spark = local_session("versions")
    where = {"endpoint": endpoint, "create_sink": "true"}
    found: dict[str, Any] = {"spark": pyspark.__version__, "python": ".".join(map(str, sys.version_info[:2]))}
    rows = spark.range(ROWS).withColumn("s", F.lit("x")).withColumn("n", F.struct("id", F.array("id")))
    records = spark.range(ROWS).selectExpr("cast(id as string) value", "cast(id % 7 as string) key")

    write_atomically([Write(rows, "together", where), Write(records, "together-2", where)], from_query=False)

    lines = folder / "lines"
    lines.mkdir()
    (lines / "one.txt").write_text("\n".join(f"line {number}" for number in range(ROWS)))
    text = spark.readStream.format("text").load(str(lines))

    def each(batch: Any, number: int) -> None:
        write_atomically([Write(batch, "each-batch", where)], from_query=True)

    checkpoint = folder / "each"
    for _ in range(2):  # the second run finds the batch committed
        query = text.writeStream.foreachBatch(each).option("checkpointLocation", str(checkpoint)).start()
        query.processAllAvailable()
        query.stop()
        (checkpoint / "commits" / "0").unlink()
        (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)

    if pyspark.__version__.startswith("3."):
        try:
            from forebay.spark import ForebayDataSource

            found["data_source"] = str(ForebayDataSource)
        except ForebaySparkError as error:
            found["data_source"] = str(error)
        return found

    def write(frame: Any, sink: str, **options: str) -> None:
        frame.write.format("forebay").mode("append").options(**where, **options).option("sink", sink).save()

    def read(sink: str, **options: str) -> Any:
        return spark.read.format("forebay").options(endpoint=endpoint, sink=sink, **options).load()

    write(rows, "arrow")
    write(rows, "json", row_format="json")
    write(records, "records")
    found["arrow"] = [
        read("arrow").count(),
        read("arrow").exceptAll(rows).count(),
        rows.exceptAll(read("arrow")).count(),
    ]
    found["records"] = read("records").selectExpr("cast(value as string) v").distinct().count()

    query = (
        text.writeStream.format("forebay")
        .options(**where)
        .option("sink", "stream")
        .option("checkpointLocation", str(folder / "write"))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    found["stream"] = read("stream").count()

    def followed() -> int:
        follow = (
            spark.readStream.format("forebay")
            .options(endpoint=endpoint, sink="records")
            .load()
            .select("value", "key")
            .writeStream.format("forebay")
            .options(**where)
            .option("sink", "copy")
            .option("checkpointLocation", str(folder / "copy"))
            .trigger(availableNow=True)
            .start()
        )
        follow.awaitTermination(120)
        assert follow.exception() is None
        return int(read("copy").count())

    found["copied"] = followed()
    write(records, "records")
    found["copied_after_a_restart"] = followed()
    found["copied_again"] = followed()
    try:
        limited = spark.readStream.format("forebay").options(endpoint=endpoint, sink="records")
        query = (
            limited.option("max_records_per_trigger", "100")
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(folder / "limited"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        found["limited"] = str(query.exception() or "ok")
    except Exception as error:  # noqa: BLE001 - any version's class; the text is compared
        found["limited"] = str(error)
    return found


if __name__ == "__main__":
    result = main(sys.argv[1], Path(sys.argv[2]))
    Path(sys.argv[2], "result.json").write_text(json.dumps(result))
