//! Native halves of `URL`, `URLSearchParams`, `TextEncoder` and `TextDecoder`.

use std::borrow::Cow;

use url::{Url, form_urlencoded, quirks};

use crate::js::{Args, Ctx, ErrorKind, JsResult, Value};

/// `encodeUtf8(text)`: bytes; unpaired surrogates become U+FFFD as the standard wants.
pub(crate) fn encode_utf8<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    ctx.bytes(args.get(0).to_usv_text()?.as_bytes())
}

/// `decodeUtf8(bytes, fatal, stream)`: the text, and how many bytes at the end belong to a character that is not complete.
pub(crate) fn decode_utf8<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let bytes = bytes_of(ctx, &args.get(0))?;
    let (fatal, stream) = (args.get(1).to_bool(), args.get(2).to_bool());
    let mut end = bytes.len();
    if stream {
        // The last character may go on in the next piece: look at most three bytes back.
        for back in 1..=3.min(bytes.len()) {
            let tail = &bytes[bytes.len() - back..];
            if let Err(error) = std::str::from_utf8(tail)
                && error.valid_up_to() == 0
                && error.error_len().is_none()
            {
                end = bytes.len() - back;
                break;
            }
        }
    }
    let text = match String::from_utf8_lossy(&bytes[..end]) {
        Cow::Owned(_) if fatal => {
            return Err(ctx.throw(ErrorKind::Type, "the encoded data is not valid UTF-8"));
        }
        text => text,
    };
    #[expect(clippy::cast_precision_loss, reason = "at most three")]
    let rest = ctx.number((bytes.len() - end) as f64);
    ctx.array(vec![ctx.string(&text)?, rest])
}

/// `decodeUtf16(bytes, fatal)`: the text of little-endian UTF-16.
pub(crate) fn decode_utf16<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let bytes = bytes_of(ctx, &args.get(0))?;
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    let fatal = args.get(1).to_bool();
    if fatal && (bytes.len() % 2 == 1 || String::from_utf16(&units).is_err()) {
        return Err(ctx.throw(ErrorKind::Type, "the encoded data is not valid UTF-16"));
    }
    ctx.string(&String::from_utf16_lossy(&units))
}

fn bytes_of(ctx: Ctx<'_>, value: &Value<'_>) -> JsResult<Vec<u8>> {
    value
        .to_bytes()
        .ok_or_else(|| ctx.throw(ErrorKind::Type, "expected an ArrayBuffer or a typed array"))
}

/// `urlParse(text, base)`: the parts of a URL, or `undefined` if it is none.
pub(crate) fn url_parse<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let text = args.get(0).to_usv_text()?;
    let base = args.get(1);
    let parsed = if base.is_undefined() {
        Url::parse(&text).ok()
    } else {
        Url::parse(&base.to_usv_text()?)
            .ok()
            .and_then(|base| base.join(&text).ok())
    };
    match parsed {
        Some(url) => parts(ctx, &url),
        None => Ok(ctx.undefined()),
    }
}

/// `urlSet(href, property, value)`: the parts after a property was set; a value that does not fit changes nothing.
pub(crate) fn url_set<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let Ok(mut url) = Url::parse(&args.get(0).to_usv_text()?) else {
        return Ok(ctx.undefined());
    };
    let value = args.get(2).to_usv_text()?;
    let url_ref = &mut url;
    // The setters of the standard ignore what they cannot take.
    let _ = match args.get(1).to_usv_text()?.as_str() {
        "protocol" => quirks::set_protocol(url_ref, &value),
        "username" => quirks::set_username(url_ref, &value),
        "password" => quirks::set_password(url_ref, &value),
        "host" => quirks::set_host(url_ref, &value),
        "hostname" => quirks::set_hostname(url_ref, &value),
        "port" => quirks::set_port(url_ref, &value),
        "pathname" => {
            quirks::set_pathname(url_ref, &value);
            Ok(())
        }
        "search" => {
            quirks::set_search(url_ref, &value);
            Ok(())
        }
        "hash" => {
            quirks::set_hash(url_ref, &value);
            Ok(())
        }
        _ => Ok(()),
    };
    parts(ctx, &url)
}

/// In the order in which the prelude reads them.
fn parts<'r>(ctx: Ctx<'r>, url: &Url) -> JsResult<Value<'r>> {
    let origin = quirks::origin(url);
    let texts = [
        quirks::href(url),
        &origin,
        quirks::protocol(url),
        quirks::username(url),
        quirks::password(url),
        quirks::host(url),
        quirks::hostname(url),
        quirks::port(url),
        quirks::pathname(url),
        quirks::search(url),
        quirks::hash(url),
    ];
    let values = texts
        .into_iter()
        .map(|text| ctx.string(text))
        .collect::<JsResult<Vec<_>>>()?;
    ctx.array(values)
}

/// `formParse(text)`: names and values in turn.
pub(crate) fn form_parse<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let text = args.get(0).to_usv_text()?;
    let mut flat = Vec::new();
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        flat.push(ctx.string(&name)?);
        flat.push(ctx.string(&value)?);
    }
    ctx.array(flat)
}

/// `formSerialize(flat)`: the text for names and values in turn.
pub(crate) fn form_serialize<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let flat = args.get(0);
    let len = u32::try_from(flat.length()?).unwrap_or(u32::MAX);
    let mut out = form_urlencoded::Serializer::new(String::new());
    for index in (0..len).step_by(2) {
        out.append_pair(
            &flat.get_index(index)?.to_usv_text()?,
            &flat.get_index(index + 1)?.to_usv_text()?,
        );
    }
    ctx.string(&out.finish())
}
