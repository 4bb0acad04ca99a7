//! Everything a program finds in its global object, in one place.
//!
//! The ECMAScript built-ins come from the engine. Natives in [`NATIVES`] and the classes of `prelude.js` add what programs
//! expect of any host (console, timers, URL, text encoding, abort signals), those of `intl.js` speak locales, and what would break the run's promises is
//! taken away. [`GLOBALS`] lists the outcome; a test holds the two together.

use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::OnceLock;

use rquickjs::qjs;

use crate::engine::{Intrinsics, State};
use crate::js::flags::{BUILTIN, PLAIN};
use crate::js::{Args, Compiled, Ctx, ErrorKind, JsResult, Thrown, Value};
use crate::{console, intl, namespace, timers, web};

/// Own property names of the global object, sorted, before namespaces are added.
pub const GLOBALS: &[&str] = &[
    "AbortController",
    "AbortSignal",
    "AggregateError",
    "Array",
    "ArrayBuffer",
    "AsyncDisposableStack",
    "BigInt",
    "BigInt64Array",
    "BigUint64Array",
    "Boolean",
    "DOMException",
    "DataView",
    "Date",
    "DisposableStack",
    "Error",
    "EvalError",
    "Event",
    "EventTarget",
    "FinalizationRegistry",
    "Float16Array",
    "Float32Array",
    "Float64Array",
    "Function",
    "Infinity",
    "Int16Array",
    "Int32Array",
    "Int8Array",
    "Intl",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "NaN",
    "Number",
    "Object",
    "Promise",
    "Proxy",
    "RangeError",
    "ReferenceError",
    "Reflect",
    "RegExp",
    "Set",
    "String",
    "SuppressedError",
    "Symbol",
    "SyntaxError",
    "TextDecoder",
    "TextEncoder",
    "TypeError",
    "URIError",
    "URL",
    "URLSearchParams",
    "Uint16Array",
    "Uint32Array",
    "Uint8Array",
    "Uint8ClampedArray",
    "WeakMap",
    "WeakRef",
    "WeakSet",
    "atob",
    "btoa",
    "clearInterval",
    "clearTimeout",
    "console",
    "decodeURI",
    "decodeURIComponent",
    "encodeURI",
    "encodeURIComponent",
    "escape",
    "eval",
    "globalThis",
    "isFinite",
    "isNaN",
    "parseFloat",
    "parseInt",
    "performance",
    "queueMicrotask",
    "setInterval",
    "setTimeout",
    "structuredClone",
    "undefined",
    "unescape",
];

/// Classes of the prelude whose objects hold their data out of sight, in the order in which the prelude lists them.
pub(crate) const OPAQUE_CLASSES: &[&str] = &[
    "URLSearchParams",
    "TextEncoder",
    "TextDecoder",
    "Event",
    "EventTarget",
    "AbortSignal",
    "AbortController",
];

type Native = for<'r> fn(Ctx<'r>, &Value<'r>, &Args<'_, 'r>) -> JsResult<Value<'r>>;

/// Where a native function is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A global of that name.
    Global,
    /// A method of `Math`, in place of the engine's.
    Math,
    /// Only the prelude sees it.
    Prelude,
}

const NATIVES: &[(&CStr, i32, Place, Native)] = &[
    (c"setTimeout", 1, Place::Global, timers::set_timeout),
    (c"setInterval", 1, Place::Global, timers::set_interval),
    (c"clearTimeout", 1, Place::Global, timers::clear),
    (c"clearInterval", 1, Place::Global, timers::clear),
    (c"random", 0, Place::Math, random),
    (c"log", 0, Place::Prelude, console::log),
    (c"print", 1, Place::Prelude, console::print),
    (c"format", 0, Place::Prelude, console::format_values),
    (c"inspect", 2, Place::Prelude, console::inspect),
    (c"indent", 1, Place::Prelude, console::indent),
    (c"now", 0, Place::Prelude, now),
    (c"classOf", 1, Place::Prelude, class_of),
    (c"encodeUtf8", 1, Place::Prelude, web::encode_utf8),
    (c"decodeUtf8", 3, Place::Prelude, web::decode_utf8),
    (c"decodeUtf16", 2, Place::Prelude, web::decode_utf16),
    (c"urlParse", 2, Place::Prelude, web::url_parse),
    (c"urlSet", 3, Place::Prelude, web::url_set),
    (c"formParse", 1, Place::Prelude, web::form_parse),
    (c"formSerialize", 1, Place::Prelude, web::form_serialize),
    (c"canonicalLocale", 1, Place::Prelude, intl::canonical_locale),
    (c"collate", 4, Place::Prelude, intl::collate),
    (c"roundDecimal", 6, Place::Prelude, intl::round_decimal),
    (c"localDecimal", 3, Place::Prelude, intl::local_decimal),
    (c"loadIntl", 0, Place::Prelude, load_intl),
    (c"zone", 2, Place::Prelude, intl::zone),
];

/// What is taken away: `SharedArrayBuffer` has nobody to share with and `Atomics` nobody to wait for; `prepareStackTrace`
/// would let a program word the stacks that failures are located by.
const REMOVED: &[&str] = &[
    "SharedArrayBuffer",
    "Atomics",
    "InternalError",
    "gc",
    "navigator",
    "scriptArgs",
    "print",
];

/// The scripts of the prelude, compiled by the first engine of the process.
static PRELUDE: OnceLock<Compiled> = OnceLock::new();
static INTL: OnceLock<Compiled> = OnceLock::new();

fn run_once_compiled<'r>(ctx: Ctx<'r>, known: &OnceLock<Compiled>, source: &str) -> JsResult<Value<'r>> {
    match known.get() {
        Some(compiled) => ctx.run_compiled(compiled),
        None => {
            let compiled = ctx.compile(source, c"<prelude>")?;
            ctx.run_compiled(known.get_or_init(|| compiled))
        }
    }
}

/// Fills the global object. Returns the intrinsics that natives rely on.
pub(crate) fn install(ctx: Ctx<'_>, runtime: NonNull<qjs::JSRuntime>) -> JsResult<Intrinsics> {
    let Some((namespace_class, unknown_class)) = namespace::register_classes(runtime.as_ptr()) else {
        return Err(ctx.throw(ErrorKind::Type, "no memory for the classes"));
    };
    let global = ctx.global();
    let math = global.get_str(c"Math")?;
    let natives = ctx.object()?;
    for (index, &(name, length, place, _)) in NATIVES.iter().enumerate() {
        let function = ctx.function(
            name,
            length,
            call_native,
            i32::try_from(index).unwrap_or(i32::MAX),
        )?;
        let name = name.to_str().unwrap_or_default();
        match place {
            Place::Global => global.define_str(name, function, BUILTIN)?,
            Place::Math => math.define_str(name, function, BUILTIN)?,
            Place::Prelude => natives.define_str(name, function, PLAIN)?,
        }
    }
    for name in REMOVED {
        global.delete(name)?;
    }
    global.get_str(c"Error")?.delete("prepareStackTrace")?;
    let prelude = run_once_compiled(ctx, &PRELUDE, concat!(include_str!("prelude.js"), "\0"))?;
    let helpers = prelude.call(&ctx.undefined(), &[&natives, &global])?;
    Intrinsics::gather(ctx, &helpers, namespace_class, unknown_class)
}

#[expect(unsafe_code, reason = "called by a C library")]
unsafe extern "C" fn call_native(
    ctx: *mut qjs::JSContext,
    this: qjs::JSValue,
    argc: c_int,
    argv: *mut qjs::JSValue,
    magic: c_int,
) -> qjs::JSValue {
    // SAFETY: the engine passes its live context and live values.
    let (ctx, this, args) = unsafe {
        let ctx = Ctx::from_raw(ctx);
        (ctx, ctx.borrow(this), Args::from_raw(ctx, argc, argv))
    };
    let Some((.., native)) = usize::try_from(magic).ok().and_then(|index| NATIVES.get(index)) else {
        return qjs::JS_UNDEFINED;
    };
    match catch_unwind(AssertUnwindSafe(|| native(ctx, &this, &args))) {
        Ok(Ok(value)) => value.into_raw(),
        Ok(Err(Thrown)) => qjs::JS_EXCEPTION,
        Err(_) => {
            let _: Thrown = ctx.throw(ErrorKind::Type, "internal error of the runtime");
            qjs::JS_EXCEPTION
        }
    }
}

fn random<'r>(ctx: Ctx<'r>, _: &Value<'r>, _: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    Ok(ctx.number(State::of(ctx).random.next()))
}

/// Milliseconds since the run began.
fn now<'r>(ctx: Ctx<'r>, _: &Value<'r>, _: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    Ok(ctx.number(State::of(ctx).origin.get().elapsed().as_secs_f64() * 1000.0))
}

/// The function that makes `Intl`, most of which most programs never need.
fn load_intl<'r>(ctx: Ctx<'r>, _: &Value<'r>, _: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    run_once_compiled(ctx, &INTL, concat!(include_str!("intl.js"), "\0"))
}

/// The engine class of an object, which a program cannot forge.
fn class_of<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    ctx.string(&args.get(0).class_name())
}
