"""Forms: urlencoded fields of a POST, in bounded size."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

MAX_BYTES = 16 * 1024
"""Size of the largest form."""
_MAX_FIELDS = 64
_TYPE = "application/x-www-form-urlencoded"


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; of several of one name the last.

    Raises:
        HTTPException: with status 413 or 415 if it is too large or of another type; 400 if it is none.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise HTTPException(415, f"A form is sent as {_TYPE}.")
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > MAX_BYTES:
                raise HTTPException(413, f"A form has at most {MAX_BYTES:,} bytes.")
    except ClientDisconnect:
        raise HTTPException(400, "The form was not sent to its end.") from None
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError:  # Bytes that are no ASCII, or too many fields.
        raise HTTPException(400, f"This is no form of at most {_MAX_FIELDS} fields.") from None
