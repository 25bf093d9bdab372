"""The functions of `rdkafka_mock.h` that the tests call, from the library that confluent-kafka's wheel contains.

`test.mock.num.brokers` starts a cluster too, but cannot create topics with a number of partitions, delete them or stop
a broker. The wheel exports the whole mock API, so ctypes reaches it without another build of librdkafka.
"""

import ctypes
from importlib.metadata import files
from pathlib import Path
from typing import Final

_PRODUCER: Final = 0
_BROKERS: Final = ctypes.c_int32
_HANDLE: Final = ctypes.c_void_p
_TEXT: Final = ctypes.c_char_p

_SIGNATURES: Final = {
    "rd_kafka_conf_new": (_HANDLE, ()),
    "rd_kafka_conf_set": (ctypes.c_int, (_HANDLE, _TEXT, _TEXT, _TEXT, ctypes.c_size_t)),
    "rd_kafka_new": (_HANDLE, (ctypes.c_int, _HANDLE, _TEXT, ctypes.c_size_t)),
    "rd_kafka_destroy": (None, (_HANDLE,)),
    "rd_kafka_err2str": (_TEXT, (ctypes.c_int,)),
    "rd_kafka_mock_cluster_new": (_HANDLE, (_HANDLE, ctypes.c_int)),
    "rd_kafka_mock_cluster_destroy": (None, (_HANDLE,)),
    "rd_kafka_mock_cluster_bootstraps": (_TEXT, (_HANDLE,)),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, (_HANDLE, ctypes.c_int32)),
    "rd_kafka_mock_set_controller_id": (ctypes.c_int, (_HANDLE, _BROKERS)),
    "rd_kafka_mock_topic_create": (ctypes.c_int, (_HANDLE, _TEXT, ctypes.c_int, ctypes.c_int)),
    "rd_kafka_mock_topic_delete": (ctypes.c_int, (_HANDLE, _TEXT)),
    "rd_kafka_mock_partition_delete_records": (ctypes.c_int, (_HANDLE, _TEXT, ctypes.c_int32, ctypes.c_int64)),
    "rd_kafka_mock_broker_set_down": (ctypes.c_int, (_HANDLE, _BROKERS)),
    "rd_kafka_mock_broker_set_up": (ctypes.c_int, (_HANDLE, _BROKERS)),
    "rd_kafka_mock_push_request_errors_array": (
        None,
        (_HANDLE, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)),
    ),
}


def load() -> ctypes.CDLL:
    """Load the library of confluent-kafka's wheel, with the result and argument types of the functions above."""
    library = ctypes.CDLL(str(_path()))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def new_handle(library: ctypes.CDLL) -> int:
    """Return a silent producer handle, which a mock cluster needs for its threads."""
    error = ctypes.create_string_buffer(512)
    configuration = library.rd_kafka_conf_new()
    library.rd_kafka_conf_set(configuration, b"log_level", b"0", error, len(error))
    handle: int | None = library.rd_kafka_new(_PRODUCER, configuration, error, len(error))
    assert handle, error.value.decode()
    return handle


def _path() -> Path:
    for file in files("confluent-kafka") or ():
        if file.name.startswith("librdkafka"):
            return Path(str(file.locate()))
    raise AssertionError("the wheel of confluent-kafka contains no librdkafka: install the wheel, not a source build")
