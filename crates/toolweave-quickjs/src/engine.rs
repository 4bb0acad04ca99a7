//! One engine for one program: warmed up without knowing the program, then run once and thrown away.
//!
//! [`Engine::warm`] makes the runtime, the context and all globals. It may happen long before the program is known, and in
//! a process that is forked afterwards; everything that must differ between runs (random numbers, the clock's origin) is
//! set by [`run_program`]. The event loop is that of browsers and Node: all microtasks, then timers in order of their due
//! time, then answers of the host.
#![expect(unsafe_code, reason = "owns the runtime and hands callbacks to a C library")]

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use rquickjs::qjs;
use toolweave_runtime::driver::Control;
use toolweave_runtime::guest::{Event, GuestEnd, GuestOutcome, GuestPort, OutgoingCall, Start};
use toolweave_runtime::{Failure, FailureKind};

use crate::encode::{Bounds, Encoded, Refusal, encode};
use crate::failure::ProgramText;
use crate::js::{Ctx, JsResult, Kept, PromiseState, Thrown, Value};
use crate::memory::{FUNCTIONS, Memory};
use crate::namespace::{Calls, Namespaces};
use crate::timers::Timers;
use crate::{globals, random};

/// How long a program may go on at its memory cap after it caught the error.
const MEMORY_GRACE: Duration = Duration::from_millis(250);
/// Native stack beyond what the engine's own check allows: built-ins written in Rust, and the last frames of the C code.
pub(crate) const STACK_SLACK: usize = 1024 * 1024;
/// The heap that is filled before the engine looks for cycles for the first time.
const GC_THRESHOLD: usize = 4 * 1024 * 1024;
/// Rejections that nobody handled, as far as they are reported.
const MAX_UNHANDLED: usize = 8;

/// The heap of an engine could not be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the JavaScript engine could not be started: {0}")]
pub struct WarmError(&'static str);

/// An engine that is ready for its one program.
pub struct Engine {
    runtime: NonNull<qjs::JSRuntime>,
    context: NonNull<qjs::JSContext>,
    state: Box<State>,
    // Dropped last: it owns every byte that the engine uses.
    memory: Box<Memory>,
}

/// What natives reach through the context.
pub(crate) struct State {
    intrinsics: OnceCell<Intrinsics>,
    /// Points to the port during a run, except while the port is in use.
    port: Cell<Option<NonNull<dyn GuestPort>>>,
    control: RefCell<Control>,
    stop: Cell<Option<Stop>>,
    memory: NonNull<Memory>,
    exhausted_since: Cell<Option<Instant>>,
    pub(crate) origin: Cell<Instant>,
    pub(crate) random: random::Generator,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) calls: RefCell<Calls>,
    pub(crate) namespaces: RefCell<Namespaces>,
    pub(crate) bounds: Cell<Bounds>,
    max_output: Cell<usize>,
    /// Answers that came while a blocking call waited for another one.
    early: RefCell<VecDeque<(u32, Result<String, String>)>>,
    unhandled: RefCell<Vec<(Kept, Kept)>>,
    /// What a timer or microtask threw: it ends the run.
    uncaught: Cell<Option<Kept>>,
    pub(crate) intl: crate::intl::Cache,
    /// Spaces in front of log lines.
    pub(crate) indent: Cell<usize>,
}

/// Why the program is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The host has ended the run.
    Over,
    /// It stayed at its memory cap.
    Memory,
}

/// Objects of the language as they were before the program could touch them.
pub(crate) struct Intrinsics {
    object_prototype: Kept,
    array_prototype: Kept,
    pub(crate) object_class: qjs::JSClassID,
    pub(crate) date_class: qjs::JSClassID,
    pub(crate) namespace_class: qjs::JSClassID,
    pub(crate) unknown_class: qjs::JSClassID,
    /// `Number`, `String` and `Boolean` objects, with the method that gives the primitive.
    boxes: [(qjs::JSClassID, Kept); 3],
    /// Reads the stack that the engine recorded in an error.
    error_stack: Kept,
    /// `collect(mapOrSet, isMap)`: its size, then its keys and values.
    collect: Kept,
    /// `makeErrorClass(name, property)`.
    make_error_class: Kept,
    date_to_iso: Kept,
    regexp_to_string: Kept,
    /// Prototypes of our own classes whose data is not in properties, with their names.
    opaque: Vec<(Kept, &'static str)>,
}

impl Engine {
    /// Makes an engine with all globals and no program.
    ///
    /// # Errors
    /// [`WarmError`] when there is no memory for it.
    pub fn warm() -> Result<Self, WarmError> {
        let memory = Box::new(Memory::unlimited());
        let opaque = (&raw const *memory).cast_mut().cast::<c_void>();
        // SAFETY: the functions match their opaque pointer, and `memory` outlives the runtime.
        let runtime = NonNull::new(unsafe { qjs::JS_NewRuntime2(&FUNCTIONS, opaque) })
            .ok_or(WarmError("no memory for a runtime"))?;
        // SAFETY: the runtime is live.
        let context = NonNull::new(unsafe { qjs::JS_NewContextRaw(runtime.as_ptr()) })
            .ok_or(WarmError("no memory for a context"))?;
        let state = Box::new(State::new(NonNull::from(&*memory)));
        let state_pointer = (&raw const *state).cast_mut().cast::<c_void>();
        // SAFETY: runtime and context are live; `state` outlives them and does not move.
        unsafe {
            let (rt, ctx) = (runtime.as_ptr(), context.as_ptr());
            qjs::JS_SetGCThreshold(rt, GC_THRESHOLD as qjs::size_t);
            qjs::JS_SetMaxStackSize(rt, 0);
            qjs::JS_SetCanBlock(rt, false);
            qjs::JS_SetContextOpaque(ctx, state_pointer);
            qjs::JS_SetInterruptHandler(rt, Some(on_interrupt), state_pointer);
            qjs::JS_SetHostPromiseRejectionTracker(rt, Some(on_rejection), state_pointer);
            qjs::JS_SetModuleLoaderFunc(rt, None, Some(on_import), std::ptr::null_mut());
            qjs::JS_AddIntrinsicRegExpCompiler(ctx);
            let added = qjs::JS_AddIntrinsicBaseObjects(ctx)
                | qjs::JS_AddIntrinsicDate(ctx)
                | qjs::JS_AddIntrinsicEval(ctx)
                | qjs::JS_AddIntrinsicRegExp(ctx)
                | qjs::JS_AddIntrinsicJSON(ctx)
                | qjs::JS_AddIntrinsicProxy(ctx)
                | qjs::JS_AddIntrinsicMapSet(ctx)
                | qjs::JS_AddIntrinsicTypedArrays(ctx)
                | qjs::JS_AddIntrinsicPromise(ctx)
                | qjs::JS_AddIntrinsicWeakRef(ctx)
                | qjs::JS_AddIntrinsicAToB(ctx);
            if added != 0 {
                return Err(WarmError("no memory for the built-in objects"));
            }
        }
        let engine = Self {
            runtime,
            context,
            state,
            memory,
        };
        let ctx = engine.ctx();
        let intrinsics = globals::install(ctx, runtime).map_err(|Thrown| {
            let thrown = ctx.take_exception();
            tracing::error!(error = %crate::failure::brief(&thrown), "the globals could not be installed");
            WarmError("the globals could not be installed")
        })?;
        if engine.state.intrinsics.set(intrinsics).is_err() {
            return Err(WarmError("warmed up twice"));
        }
        Ok(engine)
    }

    /// Does what is otherwise done on first use: looks up the time zone, and makes `Intl`.
    pub(crate) fn warm_thoroughly(&self) {
        let ctx = self.ctx();
        if let Err(thrown) = ctx.eval("new Date(0).getTimezoneOffset(); Intl\0", c"<warm>", 1) {
            let _ = ctx.forget_exception(thrown);
        }
    }

    /// Runs a program that leaves nothing behind. In a forked process this brings the pages that every run needs into
    /// memory before the run that they would slow down.
    pub(crate) fn rehearse(&self) {
        let ctx = self.ctx();
        // SAFETY: the runtime is live and used by this thread only.
        unsafe { qjs::JS_UpdateStackTop(self.runtime.as_ptr()) };
        let script =
            ProgramText::new("const a = [1, 'x'].map((x) => ({ x })); await null; return a").wrapped();
        let main = ctx
            .eval(&script, crate::failure::PROGRAM_FILE, crate::failure::FIRST_LINE)
            .and_then(|main| main.call(&ctx.undefined(), &[]));
        while matches!(ctx.run_job(), Ok(true)) {}
        if let (Ok(main), Some(intrinsics)) = (main, self.state.intrinsics()) {
            let bounds = Bounds {
                max_bytes: 1000,
                max_depth: 10,
                ..self.state.bounds.get()
            };
            let _ = encode(ctx, intrinsics, &main.promise_result(), bounds);
        }
    }

    fn ctx(&self) -> Ctx<'_> {
        // SAFETY: the context lives as long as the engine.
        unsafe { Ctx::from_raw(self.context.as_ptr()) }
    }
}

// `Drop` frees neither context nor runtime: dropping `memory` takes the whole heap back at once. See `memory`.

/// Runs the program that `start` describes, to its end.
///
/// Blocks. The calling thread must have `start.max_stack_bytes` of stack left and about a MiB more. `seed` must be fresh
/// randomness.
pub fn run_program(
    engine: Engine,
    start: &Start,
    port: &mut dyn GuestPort,
    control: &Control,
    seed: [u8; 32],
) -> GuestOutcome {
    // SAFETY: the runtime is live and used by this thread only.
    unsafe {
        qjs::JS_UpdateStackTop(engine.runtime.as_ptr());
        qjs::JS_SetMaxStackSize(engine.runtime.as_ptr(), start.max_stack_bytes as qjs::size_t);
    }
    let state = &*engine.state;
    state.origin.set(Instant::now());
    state.random.seed(seed);
    state.control.replace(control.clone());
    state.max_output.set(size(start.max_output_bytes));
    state.bounds.set(Bounds {
        mode: start.json,
        max_bytes: size(start.max_frame_bytes),
        max_depth: start.max_json_depth as usize,
    });
    engine.memory.set_limit(size(start.max_memory_bytes));
    let _lent = LentPort::new(state, port);
    let end = Run {
        ctx: engine.ctx(),
        state,
        memory: &engine.memory,
        start,
    }
    .to_its_end();
    GuestOutcome {
        end,
        peak_memory_bytes: engine.memory.peak() as u64,
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Makes the port reachable for natives, for as long as this lives.
struct LentPort<'s> {
    state: &'s State,
}

impl<'s> LentPort<'s> {
    fn new(state: &'s State, port: &mut dyn GuestPort) -> Self {
        // SAFETY: only the lifetime is erased. The pointer is cleared when this guard goes, and the guard goes before the
        // borrow of the port ends.
        let port = unsafe {
            std::mem::transmute::<NonNull<dyn GuestPort + '_>, NonNull<dyn GuestPort + 'static>>(
                NonNull::from(port),
            )
        };
        state.port.set(Some(port));
        Self { state }
    }
}

impl Drop for LentPort<'_> {
    fn drop(&mut self) {
        self.state.port.set(None);
    }
}

impl State {
    fn new(memory: NonNull<Memory>) -> Self {
        Self {
            intrinsics: OnceCell::new(),
            port: Cell::new(None),
            control: RefCell::default(),
            stop: Cell::new(None),
            memory,
            exhausted_since: Cell::new(None),
            origin: Cell::new(Instant::now()),
            random: random::Generator::default(),
            timers: RefCell::default(),
            calls: RefCell::default(),
            namespaces: RefCell::default(),
            bounds: Cell::new(Bounds {
                mode: toolweave_runtime::JsonMode::Standard,
                max_bytes: 0,
                max_depth: 0,
            }),
            max_output: Cell::new(0),
            early: RefCell::default(),
            unhandled: RefCell::default(),
            uncaught: Cell::new(None),
            intl: crate::intl::Cache::default(),
            indent: Cell::new(0),
        }
    }

    /// Returns the state behind a context.
    pub(crate) fn of(ctx: Ctx<'_>) -> &State {
        // SAFETY: `Engine::warm` set the pointer, and the state lives as long as the context.
        unsafe { &*qjs::JS_GetContextOpaque(ctx.as_ptr()).cast::<State>() }
    }

    /// Returns the bytes that the program's heap holds.
    pub(crate) fn used_memory(&self) -> usize {
        // SAFETY: the memory outlives the engine that owns this state.
        unsafe { self.memory.as_ref() }.used()
    }

    /// Returns the intrinsics; natives run only after they are set.
    pub(crate) fn intrinsics(&self) -> Option<&Intrinsics> {
        self.intrinsics.get()
    }

    /// Uses the port, unless the run is over.
    fn with_port<T>(
        &self,
        ctx: Ctx<'_>,
        use_port: impl FnOnce(&mut dyn GuestPort) -> Result<T, ()>,
    ) -> JsResult<T> {
        if self.stop.get().is_none()
            && let Some(mut port) = self.port.take()
        {
            // SAFETY: a `LentPort` vouches for the pointer, and taking it out of the cell makes this the only use.
            let result = use_port(unsafe { port.as_mut() });
            self.port.set(Some(port));
            if let Ok(value) = result {
                return Ok(value);
            }
            self.stop.set(Some(Stop::Over));
        }
        Err(ctx.throw_uncatchable())
    }

    /// Sends a call to the host.
    pub(crate) fn send_call(&self, ctx: Ctx<'_>, call: OutgoingCall<'_>) -> JsResult<()> {
        self.with_port(ctx, |port| port.call(call).map_err(drop))
    }

    /// Sends a log entry; of one that cannot fit anyway, as much as shows that.
    pub(crate) fn send_log(&self, ctx: Ctx<'_>, entry: &str) -> JsResult<()> {
        let most = self.max_output.get().saturating_add(8);
        let entry = &entry[..entry.floor_char_boundary(most.min(entry.len()))];
        self.with_port(ctx, |port| port.log(entry).map_err(drop))
    }

    /// Waits for the answer to one call while the program stands still.
    pub(crate) fn wait_for(&self, ctx: Ctx<'_>, id: u32) -> JsResult<Result<String, String>> {
        loop {
            match self.with_port(ctx, |port| Ok(port.wait(None)))? {
                Event::Answer {
                    id: answered,
                    outcome,
                } if answered == id => return Ok(outcome),
                Event::Answer { id, outcome } => self.early.borrow_mut().push_back((id, outcome)),
                Event::Due => {}
                Event::Gone => {
                    self.stop.set(Some(Stop::Over));
                    return Err(ctx.throw_uncatchable());
                }
            }
        }
    }

    /// Ends the run with what a timer or microtask threw.
    fn fail_with_pending(&self, ctx: Ctx<'_>) {
        let thrown = ctx.take_exception();
        if !thrown.is_uncatchable() && self.uncaught.get().is_none() {
            self.uncaught.set(Some(thrown.keep()));
        }
    }

    fn must_stop(&self) -> bool {
        if self.stop.get().is_some() {
            return true;
        }
        if self.control.try_borrow().is_ok_and(|control| control.is_over()) {
            self.stop.set(Some(Stop::Over));
            return true;
        }
        // SAFETY: the memory outlives the engine that owns this state.
        let memory = unsafe { self.memory.as_ref() };
        if !memory.is_exhausted() {
            return false;
        }
        memory.forgive();
        if !memory.is_exhausted() {
            self.exhausted_since.set(None);
            return false;
        }
        match self.exhausted_since.get() {
            None => {
                self.exhausted_since.set(Some(Instant::now()));
                false
            }
            Some(since) if since.elapsed() < MEMORY_GRACE => false,
            Some(_) => {
                self.stop.set(Some(Stop::Memory));
                true
            }
        }
    }
}

unsafe extern "C" fn on_interrupt(_: *mut qjs::JSRuntime, state: *mut c_void) -> c_int {
    // SAFETY: registered with a pointer to the engine's state.
    c_int::from(unsafe { &*state.cast::<State>() }.must_stop())
}

unsafe extern "C" fn on_rejection(
    ctx: *mut qjs::JSContext,
    promise: qjs::JSValue,
    reason: qjs::JSValue,
    handled: bool,
    state: *mut c_void,
) {
    // SAFETY: registered with a pointer to the engine's state; the values are live.
    let (ctx, state) = unsafe { (Ctx::from_raw(ctx), &*state.cast::<State>()) };
    let Ok(mut unhandled) = state.unhandled.try_borrow_mut() else {
        return;
    };
    // SAFETY: as above.
    let promise = unsafe { ctx.borrow(promise) };
    if handled {
        if let Some(at) = unhandled
            .iter()
            .position(|(known, _)| known.address() == promise.address())
        {
            let (promise, reason) = unhandled.swap_remove(at);
            // SAFETY: kept in this context, and used no more.
            unsafe { drop((promise.take(ctx), reason.take(ctx))) };
        }
    } else if unhandled.len() < 10_000 {
        // SAFETY: as above.
        let reason = unsafe { ctx.borrow(reason) };
        unhandled.push((promise.keep(), reason.keep()));
    }
}

unsafe extern "C" fn on_import(
    ctx: *mut qjs::JSContext,
    name: *const std::ffi::c_char,
    _: *mut c_void,
) -> *mut qjs::JSModuleDef {
    // SAFETY: the engine passes its context and a NUL-terminated name.
    let (ctx, name) = unsafe { (Ctx::from_raw(ctx), std::ffi::CStr::from_ptr(name)) };
    let message = format!(
        "cannot import {:?}: programs have no modules; call a tool on `tools`, or use the built-in objects",
        name.to_string_lossy()
    );
    let _: Thrown = ctx.throw(crate::js::ErrorKind::Type, &message);
    std::ptr::null_mut()
}

impl Intrinsics {
    /// Collects them. `helpers` is what the prelude returned.
    pub(crate) fn gather<'r>(
        ctx: Ctx<'r>,
        helpers: &Value<'r>,
        namespace_class: qjs::JSClassID,
        unknown_class: qjs::JSClassID,
    ) -> JsResult<Self> {
        let helper = |name| helpers.get_str(name).map(Value::keep);
        let samples = helpers.get_str(c"samples")?;
        let class_of = |index| samples.get_index(index).map(|value| value.class_id());
        let boxed = |index, method| Ok((class_of(index)?, helper(method)?));
        let mut opaque = Vec::new();
        let classes = helpers.get_str(c"opaque")?;
        for (index, name) in globals::OPAQUE_CLASSES.iter().copied().enumerate() {
            opaque.push((classes.get_index(u32::try_from(index).unwrap_or(0))?.keep(), name));
        }
        Ok(Self {
            object_prototype: ctx.object()?.prototype()?.keep(),
            array_prototype: ctx.array(Vec::new())?.prototype()?.keep(),
            object_class: ctx.object()?.class_id(),
            date_class: class_of(0)?,
            namespace_class,
            unknown_class,
            boxes: [
                boxed(1, c"numberValueOf")?,
                boxed(2, c"stringValueOf")?,
                boxed(3, c"booleanValueOf")?,
            ],
            error_stack: helper(c"errorStack")?,
            collect: helper(c"collect")?,
            make_error_class: helper(c"makeErrorClass")?,
            date_to_iso: helper(c"dateToIso")?,
            regexp_to_string: helper(c"regexpToString")?,
            opaque,
        })
    }

    pub(crate) fn object_prototype<'r>(&self, ctx: Ctx<'r>) -> Value<'r> {
        // SAFETY: kept in the one context of this engine.
        unsafe { self.object_prototype.get(ctx) }
    }

    /// Returns whether the value is the original `Object.prototype` or `Array.prototype`.
    pub(crate) fn is_prototype_of_literals(&self, value: &Value<'_>, array: bool) -> bool {
        let known = if array {
            self.array_prototype
        } else {
            self.object_prototype
        };
        value.is_object() && value.address() == known.address()
    }

    pub(crate) fn error_stack<'r>(&self, ctx: Ctx<'r>) -> Value<'r> {
        // SAFETY: kept in the one context of this engine.
        unsafe { self.error_stack.get(ctx) }
    }

    pub(crate) fn collect<'r>(&self, ctx: Ctx<'r>) -> Value<'r> {
        // SAFETY: kept in the one context of this engine.
        unsafe { self.collect.get(ctx) }
    }

    pub(crate) fn make_error_class<'r>(&self, ctx: Ctx<'r>) -> Value<'r> {
        // SAFETY: kept in the one context of this engine.
        unsafe { self.make_error_class.get(ctx) }
    }

    pub(crate) fn date_to_iso<'r>(&self, ctx: Ctx<'r>) -> Value<'r> {
        // SAFETY: kept in the one context of this engine.
        unsafe { self.date_to_iso.get(ctx) }
    }

    pub(crate) fn regexp_to_string<'r>(&self, ctx: Ctx<'r>) -> Value<'r> {
        // SAFETY: kept in the one context of this engine.
        unsafe { self.regexp_to_string.get(ctx) }
    }

    /// Returns the method that takes a boxed primitive out of its box.
    pub(crate) fn value_of<'r>(&self, ctx: Ctx<'r>, class: qjs::JSClassID) -> Option<Value<'r>> {
        let (_, method) = self.boxes.iter().find(|(known, _)| *known == class)?;
        // SAFETY: kept in the one context of this engine.
        Some(unsafe { method.get(ctx) })
    }

    /// Says why an object of one of our own classes has no JSON form.
    pub(crate) fn opaque_reason(&self, value: &Value<'_>) -> Option<String> {
        let prototype = value.prototype().ok()?;
        let address = prototype.address();
        let (_, name) = self.opaque.iter().find(|(known, _)| known.address() == address)?;
        let fix = match *name {
            "URLSearchParams" => "use Object.fromEntries(params), or String(params)",
            _ => "turn it into plain data first",
        };
        Some(format!("is an object of {name}, which JSON cannot hold: {fix}"))
    }
}

/// One program on its way to its end.
struct Run<'e> {
    ctx: Ctx<'e>,
    state: &'e State,
    memory: &'e Memory,
    start: &'e Start,
}

impl<'e> Run<'e> {
    fn to_its_end(&self) -> GuestEnd {
        let text = ProgramText::new(&self.start.program);
        let main = self.launch(&text);
        let end = match main {
            Ok(main) => self.settle(&text, &main),
            Err(Thrown) => {
                let thrown = self.ctx.take_exception();
                self.failed(&text, &thrown)
            }
        };
        self.report_unhandled();
        self.stopped().unwrap_or(end)
    }

    /// Installs the namespaces, compiles the program and calls it.
    fn launch(&self, text: &ProgramText<'_>) -> JsResult<Value<'e>> {
        Namespaces::install(self.ctx, self.state, &self.start.namespaces)?;
        let main = self.ctx.eval(
            &text.wrapped(),
            crate::failure::PROGRAM_FILE,
            crate::failure::FIRST_LINE,
        )?;
        main.call(&self.ctx.undefined(), &[])
    }

    /// Runs the event loop until the main promise is settled.
    fn settle(&self, text: &ProgramText<'_>, main: &Value<'e>) -> GuestEnd {
        loop {
            self.run_microtasks();
            if self.state.must_stop()
                && let Some(end) = self.stopped()
            {
                return end;
            }
            if let Some(thrown) = self.state.uncaught.take() {
                // SAFETY: kept in this context, and used no more.
                let thrown = unsafe { thrown.take(self.ctx) };
                return self.failed(text, &thrown);
            }
            match main.promise_state() {
                PromiseState::Fulfilled => return self.completed(text, &main.promise_result()),
                PromiseState::Rejected => {
                    self.forget_rejection(main);
                    return self.failed(text, &main.promise_result());
                }
                PromiseState::Pending => {}
            }
            if self.memory.was_ever_exhausted() && self.has_nothing_to_wait_for() {
                // The engine could not queue what would have gone on. Nobody will ever wake this program.
                return self.out_of_memory();
            }
            self.macrotask();
        }
    }

    fn run_microtasks(&self) {
        loop {
            match self.ctx.run_job() {
                Ok(true) => {}
                Ok(false) => return,
                Err(Thrown) => self.state.fail_with_pending(self.ctx),
            }
            if self.state.stop.get().is_some() || self.state.must_stop() {
                return;
            }
        }
    }

    /// Runs what comes next: an answer that is already here, a timer that is due, or whatever the host says first.
    fn macrotask(&self) {
        let early = self.state.early.borrow_mut().pop_front();
        if let Some((id, outcome)) = early {
            self.answer(id, outcome);
            return;
        }
        let now = Instant::now();
        let due = self.state.timers.borrow_mut().take_due(now);
        if let Some(due) = due {
            if Timers::fire(self.ctx, self.state, due).is_err() {
                self.state.fail_with_pending(self.ctx);
            }
            return;
        }
        // A program at its memory cap is looked at again when its grace is over.
        let grace = self.state.exhausted_since.get().map(|since| since + MEMORY_GRACE);
        let next = self.state.timers.borrow().next_due();
        let until = next.into_iter().chain(grace).min();
        let event = self.state.with_port(self.ctx, |port| Ok(port.wait(until)));
        self.state.timers.borrow_mut().start_round();
        match event {
            Ok(Event::Answer { id, outcome }) => self.answer(id, outcome),
            Ok(Event::Due) => {}
            Ok(Event::Gone) => self.state.stop.set(Some(Stop::Over)),
            Err(Thrown) => drop(self.ctx.take_exception()),
        }
    }

    fn has_nothing_to_wait_for(&self) -> bool {
        self.state.calls.borrow().is_empty()
            && self.state.early.borrow().is_empty()
            && self.state.timers.borrow().next_due().is_none()
    }

    fn answer(&self, id: u32, outcome: Result<String, String>) {
        if Calls::settle(self.ctx, self.state, id, outcome).is_err() {
            self.state.fail_with_pending(self.ctx);
        }
    }

    fn completed(&self, text: &ProgramText<'_>, value: &Value<'e>) -> GuestEnd {
        let Some(intrinsics) = self.state.intrinsics() else {
            return GuestEnd::Nothing;
        };
        let mut bounds = self.state.bounds.get();
        bounds.max_bytes = bounds.max_bytes.min(self.state.max_output.get());
        match encode(self.ctx, intrinsics, value, bounds) {
            Ok(Encoded::Undefined) => GuestEnd::Nothing,
            Ok(Encoded::Text(json)) => GuestEnd::Value(json),
            Err(Refusal::Stopped(Thrown)) => {
                let thrown = self.ctx.take_exception();
                self.failed(text, &thrown)
            }
            Err(Refusal::TooLong(_)) if bounds.max_bytes == self.state.max_output.get() => failed_as(
                FailureKind::OutputLimit,
                "the result is longer than the output limit".to_owned(),
            ),
            Err(refusal) => match self.memory_failure() {
                Some(end) => end,
                None => failed_as(FailureKind::InvalidOutput, refusal.describe("the result")),
            },
        }
    }

    fn failed(&self, text: &ProgramText<'_>, thrown: &Value<'e>) -> GuestEnd {
        if let Some(end) = self.stopped().or_else(|| self.memory_failure()) {
            return end;
        }
        if self.memory.was_ever_exhausted() && crate::failure::is_out_of_memory(thrown) {
            return self.out_of_memory();
        }
        // Describing an error reads its properties, which may need memory too: let it have a little.
        self.memory
            .set_limit(self.memory.limit().saturating_add(1024 * 1024));
        GuestEnd::Failed(crate::failure::describe(thrown, text))
    }

    fn memory_failure(&self) -> Option<GuestEnd> {
        self.memory.is_exhausted().then(|| self.out_of_memory())
    }

    fn out_of_memory(&self) -> GuestEnd {
        let mib = self.start.max_memory_bytes / (1024 * 1024);
        failed_as(
            FailureKind::WorkerExit,
            format!("memory limit exceeded: {mib} MiB"),
        )
    }

    fn stopped(&self) -> Option<GuestEnd> {
        match self.state.stop.get()? {
            Stop::Over => Some(failed_as(FailureKind::Abort, "the run was ended".to_owned())),
            Stop::Memory => Some(self.out_of_memory()),
        }
    }

    fn forget_rejection(&self, main: &Value<'e>) {
        self.state
            .unhandled
            .borrow_mut()
            .retain(|(promise, _)| promise.address() != main.address());
    }

    /// Logs what was rejected and never looked at, so that a forgotten `await` does not hide an error.
    fn report_unhandled(&self) {
        let unhandled = self.state.unhandled.take();
        for (_, reason) in unhandled.iter().take(MAX_UNHANDLED) {
            // SAFETY: kept in this context.
            let reason = unsafe { reason.get(self.ctx) };
            let entry = format!("Unhandled rejection: {}", crate::failure::brief(&reason));
            if self.state.send_log(self.ctx, &entry).is_err() {
                drop(self.ctx.take_exception());
                return;
            }
        }
    }
}

fn failed_as(kind: FailureKind, message: String) -> GuestEnd {
    GuestEnd::Failed(Failure {
        kind,
        name: None,
        message,
        position: None,
        stack: Vec::new(),
    })
}
