//! The globals through which a program reaches its host, and the calls that are on their way.
//!
//! A namespace is an object of a class of its own: its members are made when they are first looked at, so thousands of them
//! cost nothing. It is frozen, and so are its answers: a member is an own property, everything else is what an ordinary
//! object has, and `await` finds no `then`. Members that do not exist can be callable too, so that the host's words about a
//! wrong name reach the program (see `GuestNamespace::reject_unknown`).
#![expect(unsafe_code, reason = "implements exotic objects of a C library")]

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use rquickjs::qjs;
use toolweave_runtime::guest::{GuestNamespace, Members, OutgoingCall};

use crate::encode::{Refusal, encode_arguments};
use crate::engine::State;
use crate::js::flags::{BUILTIN, FIXED, FIXED_ENUMERABLE, PLAIN};
use crate::js::{Args, Atom, Ctx, ErrorKind, JsResult, Kept, Thrown, Value};

/// Names found by walking the list before an index is made.
const WALKS_BEFORE_INDEX: u32 = 16;
/// The longest path of an unknown member that is kept.
const MAX_PATH: usize = 1024;

/// The namespaces of a run.
#[derive(Default)]
pub(crate) struct Namespaces {
    all: Vec<Namespace>,
}

struct Namespace {
    global: String,
    members: Arc<Members>,
    /// Functions made so far, by key, and whether they are shown.
    made: HashMap<qjs::JSAtom, (Kept, bool)>,
    /// Numbers of the members by name, once that pays.
    index: Option<HashMap<String, usize>>,
    walks: u32,
    /// The class's prototype and the property for the member's name.
    error_class: Option<(Kept, String)>,
    reject_unknown: bool,
}

/// The calls of a run that have no answer yet.
#[derive(Default)]
pub(crate) struct Calls {
    last_id: u32,
    open: HashMap<u32, Call>,
}

struct Call {
    namespace: usize,
    name: Rc<str>,
    resolve: Kept,
    reject: Kept,
    /// Made at the call, so that its stack shows the call.
    error: Kept,
}

/// A member of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member<'m> {
    name: &'m str,
    blocking: bool,
    shown: bool,
}

/// Registers the classes of namespaces and of unknown members.
pub(crate) fn register_classes(runtime: *mut qjs::JSRuntime) -> Option<(qjs::JSClassID, qjs::JSClassID)> {
    let (mut namespace, mut unknown) = (qjs::JS_INVALID_CLASS_ID, qjs::JS_INVALID_CLASS_ID);
    let namespace_class = qjs::JSClassDef {
        class_name: c"Object".as_ptr(),
        finalizer: None,
        gc_mark: None,
        call: None,
        exotic: (&raw const NAMESPACE_METHODS).cast_mut(),
    };
    let unknown_class = qjs::JSClassDef {
        class_name: c"Function".as_ptr(),
        finalizer: Some(free_unknown),
        gc_mark: None,
        call: Some(call_unknown),
        exotic: (&raw const UNKNOWN_METHODS).cast_mut(),
    };
    // SAFETY: the runtime is live; the method tables are static and never written to.
    let done = unsafe {
        qjs::JS_NewClassID(runtime, &raw mut namespace);
        qjs::JS_NewClassID(runtime, &raw mut unknown);
        qjs::JS_NewClass(runtime, namespace, &raw const namespace_class)
            | qjs::JS_NewClass(runtime, unknown, &raw const unknown_class)
    };
    (done == 0).then_some((namespace, unknown))
}

impl Namespaces {
    /// Makes the globals of a run.
    pub(crate) fn install(ctx: Ctx<'_>, state: &State, namespaces: &[GuestNamespace]) -> JsResult<()> {
        let Some(intrinsics) = state.intrinsics() else {
            return Err(ctx.throw(ErrorKind::Type, "the engine is not warm"));
        };
        let global = ctx.global();
        for (number, namespace) in namespaces.iter().enumerate() {
            let error_class = match &namespace.error_class {
                None => None,
                Some((name, property)) => {
                    let make = intrinsics.make_error_class(ctx);
                    let class = make.call(&ctx.undefined(), &[&ctx.string(name)?, &ctx.string(property)?])?;
                    let prototype = class.get_str(c"prototype")?;
                    global.define_str(name, class, FIXED)?;
                    Some((prototype.keep(), property.clone()))
                }
            };
            state.namespaces.borrow_mut().all.push(Namespace {
                global: namespace.global.clone(),
                members: Arc::clone(&namespace.members),
                made: HashMap::new(),
                index: None,
                walks: 0,
                error_class,
                reject_unknown: namespace.reject_unknown,
            });
            let object = new_of_class(ctx, &intrinsics.object_prototype(ctx), intrinsics.namespace_class)?;
            // SAFETY: the object is of our class; the number plus one stands in for a pointer and is never followed.
            unsafe { qjs::JS_SetOpaque(object.as_raw(), (number + 1) as *mut c_void) };
            object.prevent_extensions()?;
            for name in std::iter::once(&namespace.global).chain(&namespace.aliases) {
                global.define_str(name, object.clone(), FIXED)?;
            }
        }
        Ok(())
    }
}

fn new_of_class<'r>(ctx: Ctx<'r>, prototype: &Value<'r>, class: qjs::JSClassID) -> JsResult<Value<'r>> {
    // SAFETY: the class is registered; returns a new reference or an exception.
    unsafe {
        ctx.returned(qjs::JS_NewObjectProtoClass(
            ctx.as_ptr(),
            prototype.as_raw(),
            class,
        ))
    }
}

impl Namespace {
    fn member(&self, number: usize) -> Option<Member<'_>> {
        let Members {
            shown,
            shown_sync,
            hidden,
            hidden_sync,
        } = &*self.members;
        let mut left = number;
        for (names, blocking, is_shown) in [
            (shown, false, true),
            (shown_sync, true, true),
            (hidden, false, false),
            (hidden_sync, true, false),
        ] {
            if let Some(name) = names.get(left) {
                return Some(Member {
                    name,
                    blocking,
                    shown: is_shown,
                });
            }
            left -= names.len();
        }
        None
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        let Members {
            shown,
            shown_sync,
            hidden,
            hidden_sync,
        } = &*self.members;
        shown.iter().chain(shown_sync).chain(hidden).chain(hidden_sync)
    }

    fn find(&mut self, name: &str) -> Option<usize> {
        if let Some(index) = &self.index {
            return index.get(name).copied();
        }
        self.walks += 1;
        if self.walks > WALKS_BEFORE_INDEX {
            let index = self
                .names()
                .enumerate()
                .map(|(number, name)| (name.clone(), number))
                .collect();
            return self.index.insert(index).get(name).copied();
        }
        self.names().position(|known| known == name)
    }
}

/// Returns the function for a member, made on first use.
fn function<'r>(ctx: Ctx<'r>, number: usize, key: &Atom<'r>) -> JsResult<Option<(Value<'r>, bool)>> {
    let state = State::of(ctx);
    if let Some(namespace) = state.namespaces.borrow().all.get(number)
        && let Some((made, shown)) = namespace.made.get(&key.as_raw())
    {
        // SAFETY: kept in this context.
        return Ok(Some((unsafe { made.get(ctx) }, *shown)));
    }
    if key.is_symbol() {
        return Ok(None);
    }
    let name = key.to_text();
    let (member, shown) = {
        let mut namespaces = state.namespaces.borrow_mut();
        let Some(namespace) = namespaces.all.get_mut(number) else {
            return Ok(None);
        };
        let Some(member) = namespace.find(&name) else {
            return Ok(None);
        };
        let shown = namespace.member(member).is_some_and(|member| member.shown);
        (member, shown)
    };
    let (number_value, member_value) = (
        ctx.int(i32::try_from(number).unwrap_or(i32::MAX)),
        ctx.int(i32::try_from(member).unwrap_or(i32::MAX)),
    );
    let mut data = [number_value.as_raw(), member_value.as_raw()];
    // SAFETY: both values are copied into the function.
    let function = unsafe {
        ctx.returned(qjs::JS_NewCFunctionData2(
            ctx.as_ptr(),
            Some(call_member),
            c"".as_ptr(),
            1,
            0,
            data.len() as c_int,
            data.as_mut_ptr(),
        ))?
    };
    function.define_str("name", ctx.string(&name)?, qjs::JS_PROP_CONFIGURABLE)?;
    let mut namespaces = state.namespaces.borrow_mut();
    if let Some(namespace) = namespaces.all.get_mut(number) {
        namespace
            .made
            .insert(key.clone().into_raw(), (function.clone().keep(), shown));
    }
    Ok(Some((function, shown)))
}

/// Starts a call: returns its promise, or for a blocking member the value.
fn call<'r>(ctx: Ctx<'r>, number: usize, target: &Target<'_>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let state = State::of(ctx);
    let Some(intrinsics) = state.intrinsics() else {
        return Ok(ctx.undefined());
    };
    let error = ctx.error_here()?;
    let encoded = encode_arguments(ctx, intrinsics, args.iter(), state.bounds.get());
    let name = target.name;
    let arguments = match encoded {
        Ok(arguments) => arguments,
        Err(Refusal::Stopped(thrown)) => return Err(thrown),
        Err(refusal) => {
            finish_error(state, &error, number, name, &refusal.describe("the argument"))?;
            if target.blocking {
                return Err(ctx.throw_value(error));
            }
            let (promise, _, reject) = ctx.promise()?;
            reject.call(&ctx.undefined(), &[&error])?;
            return Ok(promise);
        }
    };
    let id = {
        let mut calls = state.calls.borrow_mut();
        calls.last_id = calls.last_id.wrapping_add(1);
        calls.last_id
    };
    let outgoing = OutgoingCall {
        id,
        namespace: u16::try_from(number).unwrap_or(u16::MAX),
        name,
        known: target.known,
        arguments: &arguments,
    };
    if target.blocking {
        state.send_call(ctx, outgoing)?;
        return match state.wait_for(ctx, id)? {
            Ok(text) => crate::decode::decode(ctx, &text),
            Err(message) => {
                finish_error(state, &error, number, name, &message)?;
                Err(ctx.throw_value(error))
            }
        };
    }
    let (promise, resolve, reject) = ctx.promise()?;
    state.send_call(ctx, outgoing)?;
    state.calls.borrow_mut().open.insert(
        id,
        Call {
            namespace: number,
            name: name.into(),
            resolve: resolve.keep(),
            reject: reject.keep(),
            error: error.keep(),
        },
    );
    Ok(promise)
}

struct Target<'a> {
    name: &'a str,
    known: bool,
    blocking: bool,
}

impl Calls {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Settles the promise of a call. Unknown ids are ignored.
    pub(crate) fn settle(
        ctx: Ctx<'_>,
        state: &State,
        id: u32,
        outcome: Result<String, String>,
    ) -> JsResult<()> {
        let Some(call) = state.calls.borrow_mut().open.remove(&id) else {
            return Ok(());
        };
        // SAFETY: kept in this context, and used no more.
        let (resolve, reject, error) = unsafe {
            (
                call.resolve.take(ctx),
                call.reject.take(ctx),
                call.error.take(ctx),
            )
        };
        let undefined = ctx.undefined();
        match outcome {
            Ok(text) => match crate::decode::decode(ctx, &text) {
                Ok(value) => resolve.call(&undefined, &[&value])?,
                Err(Thrown) => reject.call(&undefined, &[&ctx.take_exception()])?,
            },
            Err(message) => {
                finish_error(state, &error, call.namespace, &call.name, &message)?;
                reject.call(&undefined, &[&error])?
            }
        };
        Ok(())
    }
}

/// Turns a bare error into one of the namespace's class.
fn finish_error<'r>(
    state: &State,
    error: &Value<'r>,
    number: usize,
    name: &str,
    message: &str,
) -> JsResult<()> {
    let ctx = error.ctx();
    error.define_str("message", ctx.string(message)?, BUILTIN)?;
    let class = {
        let namespaces = state.namespaces.borrow();
        namespaces
            .all
            .get(number)
            .and_then(|namespace| namespace.error_class.clone())
    };
    if let Some((prototype, property)) = class {
        // SAFETY: kept in this context.
        error.set_prototype(&unsafe { prototype.get(ctx) })?;
        error.define_str(&property, ctx.string(name)?, PLAIN)?;
    }
    Ok(())
}

/// Returns the number of the namespace that an object stands for.
fn number_of(ctx: Ctx<'_>, object: qjs::JSValue) -> Option<usize> {
    let class = State::of(ctx).intrinsics()?.namespace_class;
    // SAFETY: returns null for an object of another class.
    let opaque = unsafe { qjs::JS_GetOpaque(object, class) };
    (opaque as usize).checked_sub(1)
}

/// Runs a callback that must neither unwind into C nor leave an exception unreported.
fn guarded<T>(ctx: *mut qjs::JSContext, failed: T, work: impl FnOnce(Ctx<'_>) -> JsResult<T>) -> T {
    // SAFETY: the engine calls back with its live context.
    let ctx = unsafe { Ctx::from_raw(ctx) };
    match catch_unwind(AssertUnwindSafe(|| work(ctx))) {
        Ok(Ok(value)) => value,
        Ok(Err(Thrown)) => failed,
        Err(_) => {
            let _: Thrown = ctx.throw(ErrorKind::Type, "internal error of the runtime");
            failed
        }
    }
}

static NAMESPACE_METHODS: qjs::JSClassExoticMethods = qjs::JSClassExoticMethods {
    get_own_property: Some(namespace_own_property),
    get_own_property_names: Some(namespace_own_names),
    delete_property: Some(namespace_delete),
    define_own_property: Some(namespace_define),
    has_property: None,
    get_property: Some(namespace_get),
    set_property: Some(refuse_set),
};

unsafe extern "C" fn namespace_own_property(
    ctx: *mut qjs::JSContext,
    descriptor: *mut qjs::JSPropertyDescriptor,
    object: qjs::JSValue,
    key: qjs::JSAtom,
) -> c_int {
    guarded(ctx, -1, |ctx| {
        // SAFETY: the engine passes a live key.
        let key = unsafe { ctx.borrow_atom(key) };
        let Some(number) = number_of(ctx, object) else {
            return Ok(0);
        };
        let Some((value, shown)) = function(ctx, number, &key)? else {
            return Ok(0);
        };
        if !descriptor.is_null() {
            let flags = if shown { FIXED_ENUMERABLE } else { FIXED };
            // SAFETY: the engine passes a descriptor to fill; it takes the reference over.
            unsafe {
                descriptor.write(qjs::JSPropertyDescriptor {
                    flags: flags as c_int,
                    value: value.into_raw(),
                    getter: qjs::JS_UNDEFINED,
                    setter: qjs::JS_UNDEFINED,
                });
            }
        }
        Ok(1)
    })
}

unsafe extern "C" fn namespace_own_names(
    ctx: *mut qjs::JSContext,
    table: *mut *mut qjs::JSPropertyEnum,
    len: *mut u32,
    object: qjs::JSValue,
) -> c_int {
    guarded(ctx, -1, |ctx| {
        let names: Vec<String> = number_of(ctx, object)
            .and_then(|number| {
                let namespaces = State::of(ctx).namespaces.borrow();
                namespaces
                    .all
                    .get(number)
                    .map(|namespace| namespace.names().cloned().collect())
            })
            .unwrap_or_default();
        let mut atoms = Vec::with_capacity(names.len());
        for name in &names {
            atoms.push(ctx.atom(name)?);
        }
        let bytes = size_of::<qjs::JSPropertyEnum>() * atoms.len().max(1);
        // SAFETY: the engine frees the table and its atoms; it has room for all of them.
        unsafe {
            let memory = qjs::js_malloc(ctx.as_ptr(), bytes as qjs::size_t).cast::<qjs::JSPropertyEnum>();
            if memory.is_null() {
                return Err(Thrown);
            }
            let count = atoms.len();
            for (at, atom) in atoms.into_iter().enumerate() {
                memory.add(at).write(qjs::JSPropertyEnum {
                    is_enumerable: true,
                    atom: atom.into_raw(),
                });
            }
            table.write(memory);
            len.write(u32::try_from(count).unwrap_or(u32::MAX));
        }
        Ok(0)
    })
}

unsafe extern "C" fn namespace_delete(
    ctx: *mut qjs::JSContext,
    object: qjs::JSValue,
    key: qjs::JSAtom,
) -> c_int {
    guarded(ctx, -1, |ctx| {
        // SAFETY: the engine passes a live key.
        let key = unsafe { ctx.borrow_atom(key) };
        let own = match number_of(ctx, object) {
            Some(number) => function(ctx, number, &key)?.is_some(),
            None => false,
        };
        Ok(c_int::from(!own))
    })
}

unsafe extern "C" fn namespace_define(
    ctx: *mut qjs::JSContext,
    object: qjs::JSValue,
    key: qjs::JSAtom,
    value: qjs::JSValue,
    _getter: qjs::JSValue,
    _setter: qjs::JSValue,
    flags: c_int,
) -> c_int {
    guarded(ctx, -1, |ctx| {
        // SAFETY: the engine passes a live key.
        let key = unsafe { ctx.borrow_atom(key) };
        let same = match number_of(ctx, object) {
            Some(number) => match function(ctx, number, &key)? {
                // Object.freeze and Object.seal define what is already so.
                Some((function, shown)) => {
                    let has = |flag: u32| flags & flag as c_int != 0;
                    // SAFETY: the engine passes a live value, or `undefined`.
                    let value = unsafe { ctx.borrow(value) };
                    let changes = has(qjs::JS_PROP_HAS_GET)
                        || has(qjs::JS_PROP_HAS_SET)
                        || (has(qjs::JS_PROP_HAS_CONFIGURABLE) && has(qjs::JS_PROP_CONFIGURABLE))
                        || (has(qjs::JS_PROP_HAS_WRITABLE) && has(qjs::JS_PROP_WRITABLE))
                        || (has(qjs::JS_PROP_HAS_ENUMERABLE) && has(qjs::JS_PROP_ENUMERABLE) != shown)
                        || (has(qjs::JS_PROP_HAS_VALUE) && value.address() != function.address());
                    !changes
                }
                None => false,
            },
            None => false,
        };
        if !same && flags & (qjs::JS_PROP_THROW | qjs::JS_PROP_THROW_STRICT) as c_int != 0 {
            return Err(fixed(ctx, object, &key));
        }
        Ok(c_int::from(same))
    })
}

unsafe extern "C" fn refuse_set(
    ctx: *mut qjs::JSContext,
    object: qjs::JSValue,
    key: qjs::JSAtom,
    _value: qjs::JSValue,
    _receiver: qjs::JSValue,
    flags: c_int,
) -> c_int {
    guarded(ctx, -1, |ctx| {
        // SAFETY: the engine passes a live key.
        let key = unsafe { ctx.borrow_atom(key) };
        if flags & (qjs::JS_PROP_THROW | qjs::JS_PROP_THROW_STRICT) as c_int != 0 {
            return Err(fixed(ctx, object, &key));
        }
        Ok(0)
    })
}

fn fixed(ctx: Ctx<'_>, object: qjs::JSValue, key: &Atom<'_>) -> Thrown {
    let global = number_of(ctx, object)
        .and_then(|number| {
            State::of(ctx)
                .namespaces
                .borrow()
                .all
                .get(number)
                .map(|n| n.global.clone())
        })
        .unwrap_or_else(|| "it".to_owned());
    ctx.throw(
        ErrorKind::Type,
        &format!("cannot change `{}`: `{global}` is read-only", key.to_text()),
    )
}

unsafe extern "C" fn namespace_get(
    ctx: *mut qjs::JSContext,
    object: qjs::JSValue,
    key: qjs::JSAtom,
    _receiver: qjs::JSValue,
) -> qjs::JSValue {
    guarded(ctx, qjs::JS_EXCEPTION, |ctx| {
        // SAFETY: the engine passes live values.
        let (key, this) = unsafe { (ctx.borrow_atom(key), ctx.borrow(object)) };
        let Some(number) = number_of(ctx, object) else {
            return Ok(qjs::JS_UNDEFINED);
        };
        if let Some((function, _)) = function(ctx, number, &key)? {
            return Ok(function.into_raw());
        }
        let prototype = this.prototype()?;
        let name = key.to_text();
        if !key.is_symbol() && name == "__proto__" {
            return Ok(prototype.into_raw());
        }
        if prototype.is_object() && prototype.has(&key)? {
            return Ok(prototype.get(&key)?.into_raw());
        }
        let reject = State::of(ctx)
            .namespaces
            .borrow()
            .all
            .get(number)
            .is_some_and(|n| n.reject_unknown);
        // `then` and `toJSON` are asked of any value that is awaited or written; they say nothing about a tool.
        if !reject || key.is_symbol() || name == "then" || name == "toJSON" {
            return Ok(qjs::JS_UNDEFINED);
        }
        Ok(unknown(ctx, number, &name)?.into_raw())
    })
}

unsafe extern "C" fn call_member(
    ctx: *mut qjs::JSContext,
    _this: qjs::JSValue,
    argc: c_int,
    argv: *mut qjs::JSValue,
    _magic: c_int,
    data: *mut qjs::JSValue,
) -> qjs::JSValue {
    guarded(ctx, qjs::JS_EXCEPTION, |ctx| {
        // SAFETY: the function was made with two integers; the arguments are live.
        let (number, member, args) = unsafe {
            (
                usize::try_from(qjs::JS_VALUE_GET_INT(*data)).unwrap_or(usize::MAX),
                usize::try_from(qjs::JS_VALUE_GET_INT(*data.add(1))).unwrap_or(usize::MAX),
                Args::from_raw(ctx, argc, argv),
            )
        };
        let (members, blocking, name) = {
            let namespaces = State::of(ctx).namespaces.borrow();
            let Some(namespace) = namespaces.all.get(number) else {
                return Ok(qjs::JS_UNDEFINED);
            };
            let Some(member) = namespace.member(member) else {
                return Ok(qjs::JS_UNDEFINED);
            };
            (
                Arc::clone(&namespace.members),
                member.blocking,
                member.name.to_owned(),
            )
        };
        drop(members);
        // `await tools` asks a member named `then` for two callbacks. That is not a call of the tool.
        if name == "then" && args.len() == 2 && args.iter().all(|value| value.is_function()) {
            let message = "this namespace has a function named `then`, so it cannot be awaited";
            let error = ctx.error_here()?;
            error.define_str("message", ctx.string(message)?, BUILTIN)?;
            return Ok(args.get(1).call(&ctx.undefined(), &[&error])?.into_raw());
        }
        Ok(call(
            ctx,
            number,
            &Target {
                name: &name,
                known: true,
                blocking,
            },
            &args,
        )?
        .into_raw())
    })
}

/// What an unknown member remembers. It lives in the engine's heap, so that a program pays for it out of its own memory.
#[repr(C)]
struct Path {
    namespace: usize,
    len: usize,
    bytes: [u8; 0],
}

static UNKNOWN_METHODS: qjs::JSClassExoticMethods = qjs::JSClassExoticMethods {
    get_own_property: None,
    get_own_property_names: None,
    delete_property: None,
    define_own_property: None,
    has_property: None,
    get_property: Some(unknown_get),
    set_property: Some(refuse_set),
};

/// Makes the stand-in for a member that does not exist.
fn unknown<'r>(ctx: Ctx<'r>, namespace: usize, path: &str) -> JsResult<Value<'r>> {
    let Some(intrinsics) = State::of(ctx).intrinsics() else {
        return Ok(ctx.undefined());
    };
    let path = &path[..path.floor_char_boundary(MAX_PATH.min(path.len()))];
    // SAFETY: returns a new reference.
    let prototype = unsafe { ctx.adopt(qjs::JS_GetFunctionProto(ctx.as_ptr())) };
    let object = new_of_class(ctx, &prototype, intrinsics.unknown_class)?;
    // SAFETY: the memory has room for the header and the bytes; the object owns it from here on.
    unsafe {
        let memory =
            qjs::js_malloc(ctx.as_ptr(), (size_of::<Path>() + path.len()) as qjs::size_t).cast::<Path>();
        if memory.is_null() {
            return Err(Thrown);
        }
        memory.write(Path {
            namespace,
            len: path.len(),
            bytes: [],
        });
        std::ptr::copy_nonoverlapping(path.as_ptr(), (&raw mut (*memory).bytes).cast::<u8>(), path.len());
        qjs::JS_SetOpaque(object.as_raw(), memory.cast());
    }
    Ok(object)
}

/// Returns the namespace and the path that an unknown member stands for.
fn path_of(ctx: Ctx<'_>, object: qjs::JSValue) -> Option<(usize, String)> {
    let class = State::of(ctx).intrinsics()?.unknown_class;
    // SAFETY: an object of this class owns a `Path`; of another class, the answer is null.
    unsafe {
        let memory = qjs::JS_GetOpaque(object, class).cast::<Path>();
        if memory.is_null() {
            return None;
        }
        let bytes = std::slice::from_raw_parts((&raw const (*memory).bytes).cast::<u8>(), (*memory).len);
        Some(((*memory).namespace, String::from_utf8_lossy(bytes).into_owned()))
    }
}

unsafe extern "C" fn free_unknown(runtime: *mut qjs::JSRuntime, object: qjs::JSValue) {
    let mut class = qjs::JS_INVALID_CLASS_ID;
    // SAFETY: a finalizer of this class; its opaque pointer is null or came from `js_malloc`.
    unsafe {
        let memory = qjs::JS_GetAnyOpaque(object, &raw mut class);
        qjs::js_free_rt(runtime, memory);
    }
}

unsafe extern "C" fn unknown_get(
    ctx: *mut qjs::JSContext,
    object: qjs::JSValue,
    key: qjs::JSAtom,
    _receiver: qjs::JSValue,
) -> qjs::JSValue {
    guarded(ctx, qjs::JS_EXCEPTION, |ctx| {
        // SAFETY: the engine passes live values.
        let (key, this) = unsafe { (ctx.borrow_atom(key), ctx.borrow(object)) };
        let Some((namespace, path)) = path_of(ctx, object) else {
            return Ok(qjs::JS_UNDEFINED);
        };
        let name = key.to_text();
        if key.is_symbol() {
            // Template literals, `+` and comparisons ask for a primitive; an unknown name has none.
            return if name == "Symbol.toPrimitive" {
                Ok(refusing_function(ctx, &this)?.into_raw())
            } else {
                Ok(this.prototype()?.get(&key)?.into_raw())
            };
        }
        match name.as_str() {
            "toString" | "valueOf" | "toLocaleString" => Ok(refusing_function(ctx, &this)?.into_raw()),
            "then" | "toJSON" => Ok(qjs::JS_UNDEFINED),
            "call" | "apply" | "bind" | "constructor" => Ok(this.prototype()?.get(&key)?.into_raw()),
            "__proto__" => Ok(this.prototype()?.into_raw()),
            _ => Ok(unknown(ctx, namespace, &format!("{path}.{name}"))?.into_raw()),
        }
    })
}

/// Returns a function that throws the error about an unknown member.
fn refusing_function<'r>(ctx: Ctx<'r>, unknown: &Value<'r>) -> JsResult<Value<'r>> {
    let mut data = [unknown.as_raw()];
    // SAFETY: the value is counted into the function.
    unsafe {
        ctx.returned(qjs::JS_NewCFunctionData2(
            ctx.as_ptr(),
            Some(refuse_primitive),
            c"".as_ptr(),
            0,
            0,
            1,
            data.as_mut_ptr(),
        ))
    }
}

unsafe extern "C" fn refuse_primitive(
    ctx: *mut qjs::JSContext,
    _this: qjs::JSValue,
    _argc: c_int,
    _argv: *mut qjs::JSValue,
    _magic: c_int,
    data: *mut qjs::JSValue,
) -> qjs::JSValue {
    guarded(ctx, qjs::JS_EXCEPTION, |ctx| {
        // SAFETY: the function was made with one value.
        let Some((namespace, path)) = path_of(ctx, unsafe { *data }) else {
            return Ok(qjs::JS_UNDEFINED);
        };
        let state = State::of(ctx);
        let global = state
            .namespaces
            .borrow()
            .all
            .get(namespace)
            .map(|n| n.global.clone())
            .unwrap_or_default();
        let error = ctx.error_here()?;
        finish_error(
            state,
            &error,
            namespace,
            &path,
            &format!("`{global}.{path}` does not exist"),
        )?;
        Err(ctx.throw_value(error))
    })
}

unsafe extern "C" fn call_unknown(
    ctx: *mut qjs::JSContext,
    object: qjs::JSValue,
    _this: qjs::JSValue,
    argc: c_int,
    argv: *mut qjs::JSValue,
    _flags: c_int,
) -> qjs::JSValue {
    guarded(ctx, qjs::JS_EXCEPTION, |ctx| {
        let Some((namespace, path)) = path_of(ctx, object) else {
            return Ok(qjs::JS_UNDEFINED);
        };
        // SAFETY: the engine passes live arguments.
        let args = unsafe { Args::from_raw(ctx, argc, argv) };
        let target = Target {
            name: &path,
            known: false,
            blocking: false,
        };
        Ok(call(ctx, namespace, &target, &args)?.into_raw())
    })
}
