"""Publishes built from a template are those the codec would build, at every size."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.publish_template import PublishTemplate
from penstock.protocol.content import make_content
from penstock.protocol.methods import BasicPublish
from penstock.protocol.methods.codec import encode_method, method_frame
from penstock.protocol.properties import Properties, encode_header_payload

FRAME_BYTES_MAX = 4096


@given(st.lists(st.integers(0, 9000), min_size=1, max_size=4), st.integers(1, 65_535))
def test_a_template_says_what_the_codec_says(sizes: list[int], channel: int) -> None:
    properties = Properties(delivery_mode=2, headers={"a": 1})
    method = BasicPublish("ex", "key", True)
    template = PublishTemplate(channel, "ex", "key", properties, mandatory=True)
    for size in sizes:
        body = b"b" * size
        header = encode_header_payload(size, properties)
        content = make_content(channel, encode_method(method), header, body, FRAME_BYTES_MAX)
        expected = method_frame(channel, method) + content.raw
        assert template.frames(body, FRAME_BYTES_MAX) == expected
