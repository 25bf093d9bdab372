#!/bin/sh
# Removes from a Python environment what no process of Mirrorgate loads: tests, headers and symbols of compiled
# packages, Arrow's Flight and S3, the copies of its library for Python under other names, and those jars of Spark that
# only Spark ML, Spark Connect, Hive and the state of streams need. Takes the environment; needs strip of binutils.
set -eu
cd "$1"/lib/python3.*/site-packages
rm -rf pyarrow/include pyarrow/src pyarrow/includes pyarrow/libarrow_flight* pyarrow/libarrow_python_flight* pyarrow/_flight* \
    pyarrow/flight* pyarrow/libarrow_s3* pyarrow/_s3fs* pyarrow/libarrow_python*.so pyarrow/libarrow_python*.so.*.*.* \
    sqlalchemy/testing numpy/_core/include numpy/_core/lib numpy/distutils numpy/f2py numpy/random/lib \
    pyspark/examples pyspark/data pyspark/licenses pyspark/pandas pyspark/mllib pyspark/ml
for jar in arpack blas breeze breeze-macros cats-kernel datanucleus-api-jdo datanucleus-core datanucleus-rdbms derby \
    hive-cli hive-exec hive-jdbc hive-metastore hive-serde hive-shims hive-shims-0.23 lapack rocksdbjni \
    spark-connect_2.13 spark-hive_2.13 spark-hive-thriftserver_2.13 spark-mllib-local_2.13 spark-mllib_2.13 spire \
    spire-macros spire-platform spire-util; do
    rm -f pyspark/jars/"$jar"-[0-9]*.jar pyspark/jars/"$jar"_2.13-[0-9]*.jar
done
find . -depth -type d -name tests -exec rm -rf {} +
find . -type f \( -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.pyi' -o -name '*.h' \) -delete
# Libraries that auditwheel has patched, as those of numpy and psycopg, do not load when they are stripped.
for package in cryptography fastavro pyarrow sqlalchemy uvloop zstandard; do
    [ ! -d "$package" ] || find "$package" -type f -name '*.so*' -exec strip --strip-unneeded {} +
done
