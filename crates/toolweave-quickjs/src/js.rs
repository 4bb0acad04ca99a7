//! Owned values over the engine's C interface.
//!
//! A [`Ctx`] stands for a live context, a [`Value`] for one counted reference into it; both carry the lifetime of the
//! engine. An operation that may run program code returns [`JsResult`]; on `Err` the exception waits in the context and is
//! taken with [`Ctx::take_exception`]. Nothing here knows about runs, tools or JSON.
#![expect(unsafe_code, reason = "wraps a C library")]

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;

use rquickjs::qjs;

/// An exception is pending in the context.
#[derive(Debug)]
pub(crate) struct Thrown;

pub(crate) type JsResult<T> = Result<T, Thrown>;

/// A live context.
#[derive(Clone, Copy)]
pub(crate) struct Ctx<'r> {
    raw: NonNull<qjs::JSContext>,
    engine: PhantomData<&'r ()>,
}

/// One counted reference to a value.
pub(crate) struct Value<'r> {
    raw: qjs::JSValue,
    ctx: Ctx<'r>,
}

/// A property key.
pub(crate) struct Atom<'r> {
    raw: qjs::JSAtom,
    ctx: Ctx<'r>,
}

/// The arguments of a native function.
pub(crate) struct Args<'a, 'r> {
    ctx: Ctx<'r>,
    values: &'a [qjs::JSValue],
}

/// A reference that the engine keeps for as long as it lives. It is given back with the whole heap.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    raw: qjs::JSValue,
}

/// A script in the engine's own code. It belongs to this version of the engine and never leaves the process.
pub(crate) struct Compiled(Box<[u8]>);

/// What kind of value this is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Undefined,
    Null,
    Bool(bool),
    Int(i32),
    Float(f64),
    BigInt,
    String,
    Symbol,
    Object,
}

/// The settlement of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromiseState {
    Pending,
    Fulfilled,
    Rejected,
}

/// The error classes that natives throw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Type,
    Range,
    Syntax,
}

/// A property with its attributes.
pub(crate) enum Property<'r> {
    Data(Value<'r>),
    Accessor { getter: bool, setter: bool },
}

/// The keys of an object.
pub(crate) struct Keys<'r> {
    ctx: Ctx<'r>,
    table: *mut qjs::JSPropertyEnum,
    len: u32,
}

impl<'r> Ctx<'r> {
    /// # Safety
    /// `raw` is a live context and stays so for `'r`.
    pub(crate) unsafe fn from_raw(raw: *mut qjs::JSContext) -> Self {
        Self {
            // SAFETY: a live context is not null.
            raw: unsafe { NonNull::new_unchecked(raw) },
            engine: PhantomData,
        }
    }

    pub(crate) fn as_ptr(self) -> *mut qjs::JSContext {
        self.raw.as_ptr()
    }

    /// # Safety
    /// `raw` is a counted reference of this context; it now belongs to the value.
    pub(crate) unsafe fn adopt(self, raw: qjs::JSValue) -> Value<'r> {
        Value { raw, ctx: self }
    }

    /// Takes over what an engine function returned.
    ///
    /// # Safety
    /// As for [`Ctx::adopt`], or the exception marker.
    pub(crate) unsafe fn returned(self, raw: qjs::JSValue) -> JsResult<Value<'r>> {
        // SAFETY: reads the tag only.
        if unsafe { qjs::JS_IsException(raw) } {
            Err(Thrown)
        } else {
            // SAFETY: the caller's promise.
            Ok(unsafe { self.adopt(raw) })
        }
    }

    /// # Safety
    /// `raw` is a live value of this context.
    pub(crate) unsafe fn borrow(self, raw: qjs::JSValue) -> Value<'r> {
        // SAFETY: the caller's promise; the new reference is counted.
        unsafe { self.adopt(qjs::JS_DupValue(self.as_ptr(), raw)) }
    }

    pub(crate) fn undefined(self) -> Value<'r> {
        Value {
            raw: qjs::JS_UNDEFINED,
            ctx: self,
        }
    }

    pub(crate) fn null(self) -> Value<'r> {
        Value {
            raw: qjs::JS_NULL,
            ctx: self,
        }
    }

    pub(crate) fn bool(self, value: bool) -> Value<'r> {
        let raw = if value { qjs::JS_TRUE } else { qjs::JS_FALSE };
        Value { raw, ctx: self }
    }

    pub(crate) fn int(self, value: i32) -> Value<'r> {
        Value {
            raw: qjs::JS_MKVAL(qjs::JS_TAG_INT, value),
            ctx: self,
        }
    }

    pub(crate) fn number(self, value: f64) -> Value<'r> {
        Value {
            raw: qjs::JS_NewFloat64(value),
            ctx: self,
        }
    }

    pub(crate) fn string(self, text: &str) -> JsResult<Value<'r>> {
        // SAFETY: the bytes are copied.
        unsafe {
            self.returned(qjs::JS_NewStringLen(
                self.as_ptr(),
                text.as_ptr().cast(),
                text.len() as qjs::size_t,
            ))
        }
    }

    pub(crate) fn string_from_utf16(self, units: &[u16]) -> JsResult<Value<'r>> {
        // SAFETY: the units are copied.
        unsafe {
            self.returned(qjs::JS_NewStringUTF16(
                self.as_ptr(),
                units.as_ptr(),
                units.len() as qjs::size_t,
            ))
        }
    }

    pub(crate) fn object(self) -> JsResult<Value<'r>> {
        // SAFETY: returns a new reference or an exception.
        unsafe { self.returned(qjs::JS_NewObject(self.as_ptr())) }
    }

    /// Builds an array out of the values.
    pub(crate) fn array(self, values: Vec<Value<'r>>) -> JsResult<Value<'r>> {
        let count =
            c_int::try_from(values.len()).map_err(|_| self.throw(ErrorKind::Range, "array too long"))?;
        let raw: Vec<qjs::JSValue> = values.into_iter().map(Value::into_raw).collect();
        // SAFETY: the array takes the references over, also when it fails.
        unsafe { self.returned(qjs::JS_NewArrayFrom(self.as_ptr(), count, raw.as_ptr())) }
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> JsResult<Value<'r>> {
        // SAFETY: the bytes are copied.
        unsafe {
            self.returned(qjs::JS_NewUint8ArrayCopy(
                self.as_ptr(),
                bytes.as_ptr(),
                bytes.len() as qjs::size_t,
            ))
        }
    }

    pub(crate) fn global(self) -> Value<'r> {
        // SAFETY: returns a new reference.
        unsafe { self.adopt(qjs::JS_GetGlobalObject(self.as_ptr())) }
    }

    /// Returns an `Error` object with the stack of this moment and no message yet.
    pub(crate) fn error_here(self) -> JsResult<Value<'r>> {
        // SAFETY: returns a new reference or an exception.
        unsafe { self.returned(qjs::JS_NewError(self.as_ptr())) }
    }

    /// Evaluates a script. `source` ends in a NUL, which is not part of the text; its first line has the number `line`, which
    /// is not 0.
    pub(crate) fn eval(self, source: &str, file: &CStr, line: i32) -> JsResult<Value<'r>> {
        let Some(text) = source.strip_suffix('\0') else {
            return Err(self.throw(ErrorKind::Syntax, "a script without its end mark"));
        };
        let mut options = qjs::JSEvalOptions {
            version: qjs::JS_EVAL_OPTIONS_VERSION as c_int,
            eval_flags: qjs::JS_EVAL_TYPE_GLOBAL as c_int,
            filename: file.as_ptr(),
            line_num: line,
        };
        // SAFETY: the byte behind the text is NUL, as the engine demands; texts and options outlive the call.
        unsafe {
            self.returned(qjs::JS_Eval2(
                self.as_ptr(),
                text.as_ptr().cast(),
                text.len() as qjs::size_t,
                &raw mut options,
            ))
        }
    }

    /// Compiles a script, to be run by [`Ctx::run_compiled`] in any engine of this program. `source` ends in a NUL.
    pub(crate) fn compile(self, source: &str, file: &CStr) -> JsResult<Compiled> {
        let text = source.strip_suffix('\0').unwrap_or_default();
        let flags = (qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY) as c_int;
        let strip = (qjs::JS_WRITE_OBJ_BYTECODE | qjs::JS_WRITE_OBJ_STRIP_SOURCE) as c_int;
        let mut len = 0;
        // SAFETY: the byte behind the text is NUL, as the engine demands, or there is no text. The buffer is copied before
        // it is given back.
        unsafe {
            let function = self.returned(qjs::JS_Eval(
                self.as_ptr(),
                if text.is_empty() {
                    c"".as_ptr()
                } else {
                    text.as_ptr().cast()
                },
                text.len() as qjs::size_t,
                file.as_ptr(),
                flags,
            ))?;
            let bytes = qjs::JS_WriteObject(self.as_ptr(), &raw mut len, function.raw, strip);
            if bytes.is_null() {
                return Err(Thrown);
            }
            let compiled = Compiled(std::slice::from_raw_parts(bytes, len as usize).into());
            qjs::js_free(self.as_ptr(), bytes.cast());
            Ok(compiled)
        }
    }

    /// Runs a compiled script.
    pub(crate) fn run_compiled(self, script: &Compiled) -> JsResult<Value<'r>> {
        let flags = qjs::JS_READ_OBJ_BYTECODE as c_int;
        // SAFETY: only `compile` makes a `Compiled`, so these bytes are the engine's own. Running takes the function over.
        unsafe {
            let function = self.returned(qjs::JS_ReadObject(
                self.as_ptr(),
                script.0.as_ptr(),
                script.0.len() as qjs::size_t,
                flags,
            ))?;
            self.returned(qjs::JS_EvalFunction(self.as_ptr(), function.into_raw()))
        }
    }

    /// Returns how much heap is filled before the engine looks for cycles.
    pub(crate) fn gc_threshold(self) -> usize {
        // SAFETY: the runtime is live.
        unsafe { qjs::JS_GetGCThreshold(qjs::JS_GetRuntime(self.as_ptr())) as usize }
    }

    pub(crate) fn set_gc_threshold(self, bytes: usize) {
        // SAFETY: the runtime is live.
        unsafe { qjs::JS_SetGCThreshold(qjs::JS_GetRuntime(self.as_ptr()), bytes as qjs::size_t) }
    }

    /// Throws a new error of the given kind, which is then pending.
    pub(crate) fn throw(self, kind: ErrorKind, message: &str) -> Thrown {
        let cut = message.floor_char_boundary(200.min(message.len()));
        let text: Vec<u8> = message.as_bytes()[..cut]
            .iter()
            .copied()
            .filter(|&b| b != 0)
            .chain([0])
            .collect();
        let format = c"%s".as_ptr();
        let text: *const c_char = text.as_ptr().cast();
        // SAFETY: the format takes one NUL-terminated string, which is copied.
        unsafe {
            match kind {
                ErrorKind::Type => qjs::JS_ThrowTypeError(self.as_ptr(), format, text),
                ErrorKind::Range => qjs::JS_ThrowRangeError(self.as_ptr(), format, text),
                ErrorKind::Syntax => qjs::JS_ThrowSyntaxError(self.as_ptr(), format, text),
            };
        }
        Thrown
    }

    pub(crate) fn throw_value(self, value: Value<'r>) -> Thrown {
        // SAFETY: the context takes the reference over.
        unsafe { qjs::JS_Throw(self.as_ptr(), value.into_raw()) };
        Thrown
    }

    /// Throws an error that no `catch` and no `finally` of the program sees.
    pub(crate) fn throw_uncatchable(self) -> Thrown {
        match self.error_here() {
            Ok(error) => {
                // SAFETY: `error` is a live error object.
                unsafe { qjs::JS_SetUncatchableError(self.as_ptr(), error.raw) };
                self.throw_value(error)
            }
            Err(thrown) => thrown,
        }
    }

    /// Takes the pending exception.
    pub(crate) fn take_exception(self) -> Value<'r> {
        // SAFETY: returns the reference that the context held.
        unsafe { self.adopt(qjs::JS_GetException(self.as_ptr())) }
    }

    /// Drops the pending exception, unless it is one that must reach the top.
    pub(crate) fn forget_exception(self, _: Thrown) -> JsResult<()> {
        let thrown = self.take_exception();
        if thrown.is_uncatchable() {
            return Err(self.throw_value(thrown));
        }
        Ok(())
    }

    pub(crate) fn atom(self, name: &str) -> JsResult<Atom<'r>> {
        let raw = if name.is_ascii() {
            // SAFETY: the bytes are copied.
            unsafe { qjs::JS_NewAtomLen(self.as_ptr(), name.as_ptr().cast(), name.len() as qjs::size_t) }
        } else {
            // The engine looks UTF-8 up as if it were Latin-1, so the way leads over a string.
            let text = self.string(name)?;
            // SAFETY: a string is a valid key.
            unsafe { qjs::JS_ValueToAtom(self.as_ptr(), text.raw) }
        };
        if raw == qjs::JS_ATOM_NULL as qjs::JSAtom {
            Err(Thrown)
        } else {
            Ok(Atom { raw, ctx: self })
        }
    }

    /// # Safety
    /// `raw` is a live atom of this context.
    pub(crate) unsafe fn borrow_atom(self, raw: qjs::JSAtom) -> Atom<'r> {
        // SAFETY: the caller's promise.
        let raw = unsafe { qjs::JS_DupAtom(self.as_ptr(), raw) };
        Atom { raw, ctx: self }
    }

    /// Returns a pending promise and the functions that settle it.
    pub(crate) fn promise(self) -> JsResult<(Value<'r>, Value<'r>, Value<'r>)> {
        let mut settle = [qjs::JS_UNDEFINED; 2];
        // SAFETY: fills both functions unless it throws.
        unsafe {
            let promise = self.returned(qjs::JS_NewPromiseCapability(self.as_ptr(), settle.as_mut_ptr()))?;
            Ok((promise, self.adopt(settle[0]), self.adopt(settle[1])))
        }
    }

    /// Runs one job of the queue. Returns whether there was one.
    pub(crate) fn run_job(self) -> JsResult<bool> {
        let mut ctx = std::ptr::null_mut();
        // SAFETY: `ctx` is an out-parameter; the runtime has this one context only.
        match unsafe { qjs::JS_ExecutePendingJob(qjs::JS_GetRuntime(self.as_ptr()), &raw mut ctx) } {
            0 => Ok(false),
            1.. => Ok(true),
            _ => Err(Thrown),
        }
    }

    /// Makes a native function that is called as `table[index]`.
    pub(crate) fn function(
        self,
        name: &CStr,
        length: i32,
        call: unsafe extern "C" fn(
            *mut qjs::JSContext,
            qjs::JSValue,
            c_int,
            *mut qjs::JSValue,
            c_int,
        ) -> qjs::JSValue,
        magic: i32,
    ) -> JsResult<Value<'r>> {
        // SAFETY: with the `magic` kind the engine calls the pointer with the five arguments it declares.
        unsafe {
            let plain = std::mem::transmute::<
                unsafe extern "C" fn(
                    *mut qjs::JSContext,
                    qjs::JSValue,
                    c_int,
                    *mut qjs::JSValue,
                    c_int,
                ) -> qjs::JSValue,
                unsafe extern "C" fn(
                    *mut qjs::JSContext,
                    qjs::JSValue,
                    c_int,
                    *mut qjs::JSValue,
                ) -> qjs::JSValue,
            >(call);
            self.returned(qjs::JS_NewCFunction2(
                self.as_ptr(),
                Some(plain),
                name.as_ptr(),
                length,
                qjs::JSCFunctionEnum_JS_CFUNC_generic_magic,
                magic,
            ))
        }
    }
}

impl<'r> Value<'r> {
    pub(crate) fn ctx(&self) -> Ctx<'r> {
        self.ctx
    }

    pub(crate) fn as_raw(&self) -> qjs::JSValue {
        self.raw
    }

    /// Gives the reference up to someone who will free it.
    pub(crate) fn into_raw(self) -> qjs::JSValue {
        let raw = self.raw;
        std::mem::forget(self);
        raw
    }

    /// Keeps the reference for as long as the engine lives.
    pub(crate) fn keep(self) -> Kept {
        Kept { raw: self.into_raw() }
    }

    pub(crate) fn kind(&self) -> Kind {
        // SAFETY: the tag says which member of the union is live.
        unsafe {
            match qjs::JS_VALUE_GET_NORM_TAG(self.raw) {
                qjs::JS_TAG_NULL => Kind::Null,
                qjs::JS_TAG_BOOL => Kind::Bool(qjs::JS_VALUE_GET_BOOL(self.raw)),
                qjs::JS_TAG_INT => Kind::Int(qjs::JS_VALUE_GET_INT(self.raw)),
                qjs::JS_TAG_FLOAT64 => Kind::Float(qjs::JS_VALUE_GET_FLOAT64(self.raw)),
                qjs::JS_TAG_BIG_INT | qjs::JS_TAG_SHORT_BIG_INT => Kind::BigInt,
                qjs::JS_TAG_STRING | qjs::JS_TAG_STRING_ROPE => Kind::String,
                qjs::JS_TAG_SYMBOL => Kind::Symbol,
                qjs::JS_TAG_OBJECT => Kind::Object,
                _ => Kind::Undefined,
            }
        }
    }

    pub(crate) fn is_undefined(&self) -> bool {
        self.kind() == Kind::Undefined
    }

    pub(crate) fn is_object(&self) -> bool {
        self.kind() == Kind::Object
    }

    pub(crate) fn is_string(&self) -> bool {
        self.kind() == Kind::String
    }

    pub(crate) fn is_function(&self) -> bool {
        // SAFETY: reads the class.
        unsafe { qjs::JS_IsFunction(self.ctx.as_ptr(), self.raw) }
    }

    pub(crate) fn is_array(&self) -> bool {
        // SAFETY: reads the class.
        unsafe { qjs::JS_IsArray(self.raw) }
    }

    pub(crate) fn is_proxy(&self) -> bool {
        // SAFETY: reads the class.
        unsafe { qjs::JS_IsProxy(self.raw) }
    }

    pub(crate) fn is_error(&self) -> bool {
        // SAFETY: reads the class.
        unsafe { qjs::JS_IsError(self.raw) }
    }

    pub(crate) fn is_promise(&self) -> bool {
        // SAFETY: reads the class.
        unsafe { qjs::JS_IsPromise(self.raw) }
    }

    pub(crate) fn is_uncatchable(&self) -> bool {
        // SAFETY: reads a flag of an error object.
        unsafe { qjs::JS_IsUncatchableError(self.raw) }
    }

    /// Returns the bytes of an `ArrayBuffer`, a typed array or a `DataView`, copied.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut offset = 0;
        let mut len = 0;
        let ctx = self.ctx.as_ptr();
        // SAFETY: the range is checked against the buffer's own size before it is read, and copied before any program
        // code runs.
        unsafe {
            if qjs::JS_IsArrayBuffer(self.raw) {
                let data = qjs::JS_GetArrayBuffer(ctx, &raw mut len, self.raw);
                if data.is_null() {
                    drop(self.ctx.take_exception());
                    return None;
                }
                return Some(std::slice::from_raw_parts(data, len as usize).to_vec());
            }
            if qjs::JS_GetTypedArrayType(self.raw) < 0 {
                return None;
            }
            let mut width = 0;
            let buffer =
                qjs::JS_GetTypedArrayBuffer(ctx, self.raw, &raw mut offset, &raw mut len, &raw mut width);
            let Ok(buffer) = self.ctx.returned(buffer) else {
                drop(self.ctx.take_exception());
                return None;
            };
            let mut whole = 0;
            let data = qjs::JS_GetArrayBuffer(ctx, &raw mut whole, buffer.raw);
            if data.is_null() {
                drop(self.ctx.take_exception());
                return if len == 0 { Some(Vec::new()) } else { None };
            }
            let (start, end) = (offset as usize, (offset + len) as usize);
            std::slice::from_raw_parts(data, whole as usize)
                .get(start..end)
                .map(<[u8]>::to_vec)
        }
    }

    /// Returns the identity of an object.
    pub(crate) fn address(&self) -> usize {
        if self.is_object() {
            // SAFETY: an object's payload is a pointer.
            unsafe { qjs::JS_VALUE_GET_PTR(self.raw) as usize }
        } else {
            0
        }
    }

    pub(crate) fn class_id(&self) -> qjs::JSClassID {
        // SAFETY: returns the invalid class for anything but an object.
        unsafe { qjs::JS_GetClassID(self.raw) }
    }

    /// Returns the name of the object's engine class, for example `Map`.
    pub(crate) fn class_name(&self) -> String {
        let ctx = self.ctx.as_ptr();
        // SAFETY: the atom is a new reference, or null for an unknown class.
        unsafe {
            let raw = qjs::JS_GetClassName(qjs::JS_GetRuntime(ctx), self.class_id());
            if raw == qjs::JS_ATOM_NULL as qjs::JSAtom {
                return String::new();
            }
            Atom { raw, ctx: self.ctx }.to_text()
        }
    }

    pub(crate) fn promise_state(&self) -> PromiseState {
        // SAFETY: reads the state of a promise.
        match unsafe { qjs::JS_PromiseState(self.ctx.as_ptr(), self.raw) } {
            qjs::JSPromiseStateEnum_JS_PROMISE_FULFILLED => PromiseState::Fulfilled,
            qjs::JSPromiseStateEnum_JS_PROMISE_REJECTED => PromiseState::Rejected,
            _ => PromiseState::Pending,
        }
    }

    pub(crate) fn promise_result(&self) -> Value<'r> {
        // SAFETY: returns a new reference.
        unsafe { self.ctx.adopt(qjs::JS_PromiseResult(self.ctx.as_ptr(), self.raw)) }
    }

    /// Returns the target of a proxy.
    pub(crate) fn proxy_target(&self) -> Value<'r> {
        // SAFETY: returns a new reference.
        unsafe {
            self.ctx
                .adopt(qjs::JS_GetProxyTarget(self.ctx.as_ptr(), self.raw))
        }
    }

    pub(crate) fn get(&self, key: &Atom<'r>) -> JsResult<Value<'r>> {
        // SAFETY: value and key are live.
        unsafe {
            self.ctx
                .returned(qjs::JS_GetProperty(self.ctx.as_ptr(), self.raw, key.raw))
        }
    }

    pub(crate) fn get_str(&self, key: &CStr) -> JsResult<Value<'r>> {
        // SAFETY: the value is live, the key NUL-terminated.
        unsafe {
            self.ctx
                .returned(qjs::JS_GetPropertyStr(self.ctx.as_ptr(), self.raw, key.as_ptr()))
        }
    }

    pub(crate) fn get_index(&self, index: u32) -> JsResult<Value<'r>> {
        // SAFETY: the value is live.
        unsafe {
            self.ctx
                .returned(qjs::JS_GetPropertyUint32(self.ctx.as_ptr(), self.raw, index))
        }
    }

    pub(crate) fn length(&self) -> JsResult<u64> {
        let mut length = 0;
        // SAFETY: `length` is an out-parameter.
        if unsafe { qjs::JS_GetLength(self.ctx.as_ptr(), self.raw, &raw mut length) } < 0 {
            return Err(Thrown);
        }
        Ok(u64::try_from(length).unwrap_or(0))
    }

    /// Defines an own data property, whatever the prototypes say.
    pub(crate) fn define(&self, key: &Atom<'r>, value: Value<'r>, flags: u32) -> JsResult<()> {
        // SAFETY: the object takes the value's reference over.
        let done = unsafe {
            qjs::JS_DefinePropertyValue(
                self.ctx.as_ptr(),
                self.raw,
                key.raw,
                value.into_raw(),
                flags as c_int,
            )
        };
        if done < 0 { Err(Thrown) } else { Ok(()) }
    }

    pub(crate) fn define_str(&self, key: &str, value: Value<'r>, flags: u32) -> JsResult<()> {
        self.define(&self.ctx.atom(key)?, value, flags)
    }

    pub(crate) fn delete(&self, key: &str) -> JsResult<()> {
        let key = self.ctx.atom(key)?;
        // SAFETY: value and key are live.
        if unsafe { qjs::JS_DeleteProperty(self.ctx.as_ptr(), self.raw, key.raw, 0) } < 0 {
            return Err(Thrown);
        }
        Ok(())
    }

    pub(crate) fn has(&self, key: &Atom<'r>) -> JsResult<bool> {
        // SAFETY: value and key are live.
        match unsafe { qjs::JS_HasProperty(self.ctx.as_ptr(), self.raw, key.raw) } {
            0 => Ok(false),
            1.. => Ok(true),
            _ => Err(Thrown),
        }
    }

    /// Returns an own property without running getters.
    pub(crate) fn own(&self, key: &Atom<'r>) -> JsResult<Option<Property<'r>>> {
        let mut descriptor = qjs::JSPropertyDescriptor {
            flags: 0,
            value: qjs::JS_UNDEFINED,
            getter: qjs::JS_UNDEFINED,
            setter: qjs::JS_UNDEFINED,
        };
        // SAFETY: on 1 the descriptor holds new references, which are adopted here.
        unsafe {
            match qjs::JS_GetOwnProperty(self.ctx.as_ptr(), &raw mut descriptor, self.raw, key.raw) {
                0 => Ok(None),
                1.. => {
                    let value = self.ctx.adopt(descriptor.value);
                    let getter = self.ctx.adopt(descriptor.getter);
                    let setter = self.ctx.adopt(descriptor.setter);
                    Ok(Some(if descriptor.flags & qjs::JS_PROP_GETSET as c_int != 0 {
                        Property::Accessor {
                            getter: !getter.is_undefined(),
                            setter: !setter.is_undefined(),
                        }
                    } else {
                        Property::Data(value)
                    }))
                }
                _ => Err(Thrown),
            }
        }
    }

    pub(crate) fn has_own(&self, key: &Atom<'r>) -> JsResult<bool> {
        // SAFETY: without a descriptor nothing is returned but the answer.
        match unsafe { qjs::JS_GetOwnProperty(self.ctx.as_ptr(), std::ptr::null_mut(), self.raw, key.raw) } {
            0 => Ok(false),
            1.. => Ok(true),
            _ => Err(Thrown),
        }
    }

    pub(crate) fn has_own_index(&self, index: u32) -> JsResult<bool> {
        // SAFETY: returns a new atom.
        let key = unsafe { qjs::JS_NewAtomUInt32(self.ctx.as_ptr(), index) };
        self.has_own(&Atom {
            raw: key,
            ctx: self.ctx,
        })
    }

    /// Returns the own keys selected by `JS_GPN_*` flags.
    pub(crate) fn keys(&self, flags: u32) -> JsResult<Keys<'r>> {
        let mut table = std::ptr::null_mut();
        let mut len = 0;
        // SAFETY: the table is freed by `Keys`.
        let done = unsafe {
            qjs::JS_GetOwnPropertyNames(
                self.ctx.as_ptr(),
                &raw mut table,
                &raw mut len,
                self.raw,
                flags as c_int,
            )
        };
        if done < 0 {
            Err(Thrown)
        } else {
            Ok(Keys {
                ctx: self.ctx,
                table,
                len,
            })
        }
    }

    pub(crate) fn prototype(&self) -> JsResult<Value<'r>> {
        // SAFETY: returns a new reference or an exception.
        unsafe {
            self.ctx
                .returned(qjs::JS_GetPrototype(self.ctx.as_ptr(), self.raw))
        }
    }

    pub(crate) fn set_prototype(&self, prototype: &Value<'r>) -> JsResult<()> {
        // SAFETY: both values are live.
        if unsafe { qjs::JS_SetPrototype(self.ctx.as_ptr(), self.raw, prototype.raw) } < 0 {
            return Err(Thrown);
        }
        Ok(())
    }

    pub(crate) fn prevent_extensions(&self) -> JsResult<()> {
        // SAFETY: the value is live.
        if unsafe { qjs::JS_PreventExtensions(self.ctx.as_ptr(), self.raw) } < 0 {
            Err(Thrown)
        } else {
            Ok(())
        }
    }

    pub(crate) fn call(&self, this: &Value<'r>, args: &[&Value<'r>]) -> JsResult<Value<'r>> {
        let mut raw: Vec<qjs::JSValue> = args.iter().map(|value| value.raw).collect();
        // SAFETY: the arguments are borrowed for the call.
        unsafe {
            self.ctx.returned(qjs::JS_Call(
                self.ctx.as_ptr(),
                self.raw,
                this.raw,
                raw.len() as c_int,
                raw.as_mut_ptr(),
            ))
        }
    }

    /// Returns the text of a string, or what `ToString` makes of anything else; an unpaired surrogate is written as its
    /// escape, `\ud83d`.
    pub(crate) fn to_text(&self) -> JsResult<String> {
        self.with_utf8(escape_surrogates)
    }

    /// Returns the text as web interfaces take it: an unpaired surrogate becomes U+FFFD.
    pub(crate) fn to_usv_text(&self) -> JsResult<String> {
        self.with_utf8(|bytes| from_wtf8(bytes, |out, _| out.push('\u{fffd}')))
    }

    /// Hands the UTF-8 bytes of the string to `read`. Unpaired surrogates are left as three bytes that are not UTF-8.
    pub(crate) fn with_utf8<T>(&self, read: impl FnOnce(&[u8]) -> T) -> JsResult<T> {
        let mut len = 0;
        // SAFETY: the text lives until it is freed below; `read` cannot keep it.
        unsafe {
            let text = qjs::JS_ToCStringLen2(self.ctx.as_ptr(), &raw mut len, self.raw, false);
            if text.is_null() {
                return Err(Thrown);
            }
            let result = read(std::slice::from_raw_parts(text.cast(), len as usize));
            qjs::JS_FreeCString(self.ctx.as_ptr(), text);
            Ok(result)
        }
    }

    /// Returns the description of a symbol.
    pub(crate) fn symbol_text(&self) -> JsResult<String> {
        // SAFETY: a symbol is a valid key; returns a new atom.
        let raw = unsafe { qjs::JS_ValueToAtom(self.ctx.as_ptr(), self.raw) };
        if raw == qjs::JS_ATOM_NULL as qjs::JSAtom {
            return Err(Thrown);
        }
        Ok(Atom { raw, ctx: self.ctx }.to_text())
    }

    /// Returns what `ToNumber` makes of the value.
    pub(crate) fn to_number(&self) -> JsResult<f64> {
        match self.kind() {
            Kind::Int(value) => Ok(f64::from(value)),
            Kind::Float(value) => Ok(value),
            _ => {
                let mut number = 0.0;
                // SAFETY: `number` is an out-parameter.
                if unsafe { qjs::JS_ToFloat64(self.ctx.as_ptr(), &raw mut number, self.raw) } < 0 {
                    return Err(Thrown);
                }
                Ok(number)
            }
        }
    }

    pub(crate) fn to_bool(&self) -> bool {
        // SAFETY: cannot run program code.
        unsafe { qjs::JS_ToBool(self.ctx.as_ptr(), self.raw) > 0 }
    }
}

impl Clone for Value<'_> {
    fn clone(&self) -> Self {
        // SAFETY: the value is live.
        unsafe { self.ctx.borrow(self.raw) }
    }
}

impl Drop for Value<'_> {
    fn drop(&mut self) {
        // SAFETY: gives back the one reference that this value holds.
        unsafe { qjs::JS_FreeValue(self.ctx.as_ptr(), self.raw) }
    }
}

impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.kind().fmt(f)
    }
}

impl Kept {
    /// # Safety
    /// `ctx` is the context that the value was kept in.
    pub(crate) unsafe fn get<'r>(self, ctx: Ctx<'r>) -> Value<'r> {
        // SAFETY: a kept reference is never freed before the context.
        unsafe { ctx.borrow(self.raw) }
    }

    /// Takes the reference back, so that it is freed.
    ///
    /// # Safety
    /// `ctx` is the context that the value was kept in, and no copy of this is used again.
    pub(crate) unsafe fn take<'r>(self, ctx: Ctx<'r>) -> Value<'r> {
        // SAFETY: the caller's promise.
        unsafe { ctx.adopt(self.raw) }
    }

    pub(crate) fn address(self) -> usize {
        // SAFETY: only objects are compared by address.
        unsafe { qjs::JS_VALUE_GET_PTR(self.raw) as usize }
    }
}

impl<'r> Atom<'r> {
    pub(crate) fn as_raw(&self) -> qjs::JSAtom {
        self.raw
    }

    pub(crate) fn to_value(&self) -> JsResult<Value<'r>> {
        // SAFETY: returns a new reference or an exception.
        unsafe {
            self.ctx
                .returned(qjs::JS_AtomToValue(self.ctx.as_ptr(), self.raw))
        }
    }

    pub(crate) fn is_symbol(&self) -> bool {
        self.to_value().is_ok_and(|value| value.kind() == Kind::Symbol)
    }

    /// Hands the UTF-8 bytes of the key to `read`, as [`Value::with_utf8`] does.
    pub(crate) fn with_utf8<T>(&self, read: impl FnOnce(&[u8]) -> T) -> JsResult<T> {
        let mut len = 0;
        // SAFETY: the text lives until it is freed below; `read` cannot keep it.
        unsafe {
            let text = qjs::JS_AtomToCStringLen(self.ctx.as_ptr(), &raw mut len, self.raw);
            if text.is_null() {
                return Err(Thrown);
            }
            let result = read(std::slice::from_raw_parts(text.cast(), len as usize));
            qjs::JS_FreeCString(self.ctx.as_ptr(), text);
            Ok(result)
        }
    }

    pub(crate) fn to_text(&self) -> String {
        match self.with_utf8(escape_surrogates) {
            Ok(text) => text,
            Err(Thrown) => {
                drop(self.ctx.take_exception());
                String::new()
            }
        }
    }

    pub(crate) fn into_raw(self) -> qjs::JSAtom {
        let raw = self.raw;
        std::mem::forget(self);
        raw
    }
}

impl Clone for Atom<'_> {
    fn clone(&self) -> Self {
        // SAFETY: the atom is live.
        unsafe { self.ctx.borrow_atom(self.raw) }
    }
}

impl Drop for Atom<'_> {
    fn drop(&mut self) {
        // SAFETY: gives back the one reference that this atom holds.
        unsafe { qjs::JS_FreeAtom(self.ctx.as_ptr(), self.raw) }
    }
}

impl<'r> Keys<'r> {
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn get(&self, index: usize) -> Option<Atom<'r>> {
        self.entry(index).map(|(atom, _)| atom)
    }

    /// Returns the key, and whether it is enumerable (where that was asked for).
    pub(crate) fn entry(&self, index: usize) -> Option<(Atom<'r>, bool)> {
        if index >= self.len() {
            return None;
        }
        // SAFETY: the table has `len` entries.
        unsafe {
            let entry = *self.table.add(index);
            Some((self.ctx.borrow_atom(entry.atom), entry.is_enumerable))
        }
    }
}

impl Drop for Keys<'_> {
    fn drop(&mut self) {
        // SAFETY: the table came from the engine and is freed once.
        unsafe { qjs::JS_FreePropertyEnum(self.ctx.as_ptr(), self.table, self.len) }
    }
}

impl<'a, 'r> Args<'a, 'r> {
    /// # Safety
    /// `argv` points to `argc` live values of `ctx` that stay so for `'a`.
    pub(crate) unsafe fn from_raw(ctx: Ctx<'r>, argc: c_int, argv: *mut qjs::JSValue) -> Self {
        let len = usize::try_from(argc).unwrap_or(0);
        let values = if len == 0 || argv.is_null() {
            &[]
        } else {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts(argv, len) }
        };
        Self { ctx, values }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns an argument, `undefined` where there is none.
    pub(crate) fn get(&self, index: usize) -> Value<'r> {
        match self.values.get(index) {
            // SAFETY: arguments are live during the call.
            Some(&raw) => unsafe { self.ctx.borrow(raw) },
            None => self.ctx.undefined(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'r>> {
        (0..self.len()).map(|index| self.get(index))
    }
}

fn escape_surrogates(bytes: &[u8]) -> String {
    from_wtf8(bytes, |out, surrogate| {
        use std::fmt::Write as _;
        let _ = write!(out, "\\u{surrogate:04x}");
    })
}

/// Reads UTF-8 in which unpaired surrogates stand as three bytes each.
fn from_wtf8(bytes: &[u8], mut surrogate: impl FnMut(&mut String, u16)) -> String {
    let mut out = String::new();
    let mut rest = bytes;
    loop {
        match std::str::from_utf8(rest) {
            Ok(text) => {
                out.push_str(text);
                return out;
            }
            Err(error) => {
                let (good, bad) = rest.split_at(error.valid_up_to());
                out.push_str(&String::from_utf8_lossy(good));
                rest = match *bad {
                    [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, ref rest @ ..] => {
                        surrogate(
                            &mut out,
                            0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f),
                        );
                        rest
                    }
                    [_, ref rest @ ..] => {
                        out.push('\u{fffd}');
                        rest
                    }
                    [] => return out,
                };
            }
        }
    }
}

/// Property attributes that natives use.
pub(crate) mod flags {
    use rquickjs::qjs;

    /// As by assignment.
    pub(crate) const PLAIN: u32 = qjs::JS_PROP_C_W_E;
    /// As for built-ins: writable and configurable, not enumerable.
    pub(crate) const BUILTIN: u32 = qjs::JS_PROP_CONFIGURABLE | qjs::JS_PROP_WRITABLE;
    /// Fixed and enumerable.
    pub(crate) const FIXED_ENUMERABLE: u32 = qjs::JS_PROP_ENUMERABLE;
    /// Fixed and hidden.
    pub(crate) const FIXED: u32 = 0;
}
