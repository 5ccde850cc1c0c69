"""Fenced objects in a bucket that speaks the S3 API and honours conditional writes."""

from tenure.sinks.s3.sink import BoundS3, S3Sink

__all__ = ["BoundS3", "S3Sink"]
