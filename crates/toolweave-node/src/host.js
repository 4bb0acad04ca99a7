// The side of a worker that faces its host: frames, timers, and the turns of the event loop. It runs in the realm that Node
// made; the program runs in another one (`guest.js`). Between the two go strings and numbers, and values of the program that
// this side keeps but never looks into. Nothing of this realm is ever handed over: not an object, not an error, not a promise.
//
// The protocol is that of `toolweave-runtime::protocol`. One byte precedes it: READY, when everything that needs a file, a
// thread or a library has been done.
(function (require, sources) {
  "use strict";

  const { readSync, writeSync } = require("fs");
  const { Socket } = require("net");
  const vm = require("vm");
  const { types } = require("util");
  const { getHeapStatistics } = require("v8");
  const { internalBinding } = require("internal/test/binding");
  const { getPromiseDetails, getProxyDetails } = internalBinding("util");
  const { runMicrotasks, setPromiseRejectCallback, promiseRejectEvents } = internalBinding("task_queue");
  const { setPrepareStackTraceCallback } = internalBinding("errors");
  const { setImportModuleDynamicallyCallback } = internalBinding("module_wrap");
  const { reallyExit, resourceUsage } = process;
  const { performance, setTimeout, clearTimeout, URL, URLSearchParams, TextEncoder, TextDecoder, Buffer } = globalThis;
  const apply = Reflect.apply;
  const typedArray = Object.getPrototypeOf(Uint8Array.prototype);
  const slot = (name) => Object.getOwnPropertyDescriptor(typedArray, name).get;
  const arrayKind = slot(Symbol.toStringTag);
  const arrayBuffer = slot("buffer");
  const arrayOffset = slot("byteOffset");
  const arrayLength = slot("byteLength");

  const SOCKET = 0;
  const READY = 0x52;
  const START = 1, ANSWER = 2, CALL = 17, LOG = 18, DONE = 19;
  const HEADER = 5;
  const NOTHING = 0, VALUE = 1, FAILED = 2;
  const PROGRAM_FILE = "program.ts";
  const PREFIX = '(async () => {\n"use strict";\n';
  const MAX_NAME = 4096;
  const MAX_TIMERS = 100_000;
  const MAX_UNHANDLED = 10_000;

  const gone = () => reallyExit(0);

  // ---- the socket ----------------------------------------------------------------------------------------------------

  // Frames that are here and not acted on yet, and the one that is still arriving.
  let frames = [];
  let taken = 0;
  const head = Buffer.alloc(HEADER);
  let headFilled = 0;
  let body = null;
  let bodyFilled = 0;

  const feed = (bytes, length) => {
    let at = 0;
    while (at < length) {
      if (body === null) {
        const count = Math.min(HEADER - headFilled, length - at);
        bytes.copy(head, headFilled, at, at + count);
        headFilled += count;
        at += count;
        if (headFilled < HEADER) return;
        body = Buffer.allocUnsafeSlow(head.readUInt32LE(0));
        bodyFilled = 0;
      }
      const count = Math.min(body.length - bodyFilled, length - at);
      bytes.copy(body, bodyFilled, at, at + count);
      bodyFilled += count;
      at += count;
      if (bodyFilled === body.length) {
        frames.push({ kind: head[4], body });
        body = null;
        headFilled = 0;
      }
    }
    if (body !== null && body.length === 0) {
      frames.push({ kind: head[4], body });
      body = null;
      headFilled = 0;
    }
  };

  const takeFrame = () => {
    if (taken === frames.length) return undefined;
    const frame = frames[taken];
    frames[taken] = undefined;
    taken += 1;
    if (taken === frames.length) {
      frames = [];
      taken = 0;
    }
    return frame;
  };

  const piece = Buffer.allocUnsafeSlow(256 * 1024);
  const sleeper = new Int32Array(new SharedArrayBuffer(4));
  const { wait } = Atomics;

  // Reads what is there. Returns false when nothing is.
  const readNow = () => {
    let length;
    try {
      length = readSync(SOCKET, piece, 0, piece.length, null);
    } catch (error) {
      if (error.code === "EAGAIN") return false;
      return gone();
    }
    if (length === 0) return gone();
    feed(piece, length);
    return true;
  };

  const writeAll = (bytes, length) => {
    let at = 0;
    let pause = 0.05;
    while (at < length) {
      try {
        at += writeSync(SOCKET, bytes, at, length - at, null);
      } catch (error) {
        if (error.code !== "EAGAIN") return gone();
        // The host may be waiting for this side to read.
        if (!readNow()) wait(sleeper, 0, 0, pause);
        pause = Math.min(pause * 2, 1);
      }
    }
  };

  const scratch = Buffer.allocUnsafeSlow(64 * 1024);
  // Sends a frame: a few bytes, then text.
  const send = (kind, front, text) => {
    const before = HEADER + front.length;
    let bytes = scratch;
    let length;
    if (before + text.length * 3 <= scratch.length) {
      length = text.length === 0 ? 0 : scratch.utf8Write(text, before);
    } else {
      length = Buffer.byteLength(text);
      bytes = Buffer.allocUnsafeSlow(before + length);
      bytes.utf8Write(text, before);
    }
    bytes.writeUInt32LE(front.length + length, 0);
    bytes[4] = kind;
    front.copy(bytes, HEADER);
    writeAll(bytes, before + length);
  };
  const nothing = Buffer.alloc(0);

  // ---- what the guest may ask for ------------------------------------------------------------------------------------

  const view = (bytes) =>
    new Uint8Array(apply(arrayBuffer, bytes, []), apply(arrayOffset, bytes, []), apply(arrayLength, bytes, []));

  const parts = (url) =>
    JSON.stringify([
      url.href, url.origin, url.protocol, url.username, url.password, url.host, url.hostname, url.port, url.pathname,
      url.search, url.hash,
    ]);

  const parsed = (text, base) => {
    try {
      return new URL(text, base);
    } catch {
      return undefined;
    }
  };

  // How many bytes at the end start a character that is not complete.
  const incomplete = (bytes) => {
    for (let back = 1; back <= 3 && back <= bytes.length; back++) {
      const byte = bytes[bytes.length - back];
      if (byte < 0x80) return 0;
      if (byte >= 0xc0) {
        const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
        return byte <= 0xf4 && needs > back ? back : 0;
      }
    }
    return 0;
  };

  const decoders = new Map();
  const decode = (label, fatal, bytes) => {
    const key = label + fatal;
    let decoder = decoders.get(key);
    if (decoder === undefined) {
      decoder = new TextDecoder(label, { fatal, ignoreBOM: true });
      decoders.set(key, decoder);
    }
    try {
      return decoder.decode(bytes);
    } catch {
      return undefined;
    }
  };

  const boxes = [
    ["Number", types.isNumberObject], ["String", types.isStringObject], ["Boolean", types.isBooleanObject],
    ["BigInt", types.isBigIntObject], ["Symbol", types.isSymbolObject],
  ];
  const classes = [
    ["Map", types.isMap], ["Set", types.isSet], ["Date", types.isDate], ["Promise", types.isPromise],
    ["RegExp", types.isRegExp], ["Error", types.isNativeError], ["WeakMap", types.isWeakMap], ["WeakSet", types.isWeakSet],
    ["ArrayBuffer", types.isAnyArrayBuffer], ["DataView", types.isDataView], ["Map Iterator", types.isMapIterator],
    ["Set Iterator", types.isSetIterator], ["Generator", types.isGeneratorObject], ["Arguments", types.isArgumentsObject],
    ...boxes,
  ];
  const isArray = Array.isArray;
  const encoder = new TextEncoder();

  let origin = performance.now();
  let lastId = 0;
  const calls = new Map();
  const early = [];
  let ended = false;
  let baseline = 0;

  const beginCall = (namespace, known, name, text) => {
    lastId = (lastId + 1) >>> 0;
    let named = Buffer.from(name);
    if (named.length > MAX_NAME) named = Buffer.from(named.toString("utf8", 0, MAX_NAME - 4));
    const front = Buffer.allocUnsafe(11 + named.length);
    front.writeUInt32LE(lastId, 0);
    front.writeUInt16LE(namespace, 4);
    front[6] = known ? 1 : 0;
    front.writeUInt32LE(named.length, 7);
    named.copy(front, 11);
    send(CALL, front, text);
    return lastId;
  };

  const answerOf = (frame) => ({
    id: frame.body.readUInt32LE(0),
    ok: frame.body[4] === 0,
    text: frame.body.toString("utf8", 5),
  });

  const bridge = {
    log: (text) => send(LOG, nothing, text),
    utf8Length: (text) => Buffer.byteLength(text),
    now: () => performance.now() - origin,

    call: (namespace, known, name, text, resolve, reject, error) => {
      const id = beginCall(namespace, known, name, text);
      calls.set(id, { namespace, name, resolve, reject, error });
    },
    // Returns the answer with a letter in front: `+` for a value, `-` for a message.
    callSync: (namespace, name, text) => {
      const id = beginCall(namespace, true, name, text);
      let pause = 0.02;
      for (;;) {
        let frame;
        while ((frame = takeFrame()) !== undefined) {
          if (frame.kind !== ANSWER) continue;
          const answer = answerOf(frame);
          if (answer.id === id) return (answer.ok ? "+" : "-") + answer.text;
          early.push(answer);
        }
        if (!readNow()) {
          wait(sleeper, 0, 0, pause);
          pause = Math.min(pause * 1.5, 1);
        } else {
          pause = 0.02;
        }
      }
    },
    done: (tag, text) => {
      ended = true;
      const front = Buffer.alloc(9);
      const peak = Math.max(0, resourceUsage().maxRSS * 1024 - baseline, getHeapStatistics().used_heap_size);
      front.writeBigUInt64LE(BigInt(peak), 0);
      front[8] = tag === "nothing" ? NOTHING : tag === "value" ? VALUE : FAILED;
      send(DONE, front, text);
    },

    setTimer: (callback, values, delay, repeat) => {
      if (timers.size >= MAX_TIMERS) return 0;
      const id = (lastTimer = (lastTimer + 1) >>> 0);
      const timer = { id, callback, values, every: repeat ? delay : undefined, due: performance.now() + delay, stamp: made++ };
      timers.set(id, timer);
      pushTimer({ due: timer.due, stamp: timer.stamp, id });
      return id;
    },
    clearTimer: (id) => {
      timers.delete(id >>> 0);
    },

    proxyTarget: (value) => (types.isProxy(value) ? getProxyDetails(value, false) : undefined),
    isProxy: (value) => types.isProxy(value),
    isNativeError: (value) => types.isNativeError(value),
    promiseState: (promise) => getPromiseDetails(promise)[0],
    promiseResult: (promise) => getPromiseDetails(promise)[1],
    functionKind: (value) =>
      types.isGeneratorFunction(value)
        ? types.isAsyncFunction(value) ? "AsyncGeneratorFunction" : "GeneratorFunction"
        : types.isAsyncFunction(value) ? "AsyncFunction" : "Function",
    classOf: (value) => {
      if (typeof value === "function") return "Function";
      if (types.isProxy(value)) return "Proxy";
      if (isArray(value)) return "Array";
      const array = apply(arrayKind, value, []);
      if (array !== undefined) return array;
      for (let i = 0; i < classes.length; i++) if (classes[i][1](value)) return classes[i][0];
      return "Object";
    },

    urlParse: (text, base) => {
      const url = parsed(text, base);
      return url === undefined ? undefined : parts(url);
    },
    urlSet: (href, property, value) => {
      const url = parsed(href, undefined);
      if (url === undefined) return undefined;
      try {
        url[property] = value;
      } catch {
        // A value that does not fit changes nothing.
      }
      return parts(url);
    },
    // The ampersand protects a question mark in front.
    formParse: (text) => JSON.stringify([...new URLSearchParams("&" + text)].flat()),
    formSerialize: (text) => {
      const flat = JSON.parse(text);
      const params = new URLSearchParams();
      for (let i = 0; i + 1 < flat.length; i += 2) params.append(flat[i], flat[i + 1]);
      return params.toString();
    },
    encodeUtf8: (text, target) => {
      encoder.encodeInto(text, view(target));
    },
    // Returns the text with a digit in front: the bytes at the end that belong to a character still to come.
    decodeUtf8: (bytes, fatal, stream) => {
      const all = view(bytes);
      const rest = stream ? incomplete(all) : 0;
      const text = decode("utf-8", fatal, all.subarray(0, all.length - rest));
      return text === undefined ? undefined : rest + text;
    },
    decodeUtf16: (bytes, fatal) => {
      const all = view(bytes);
      if (fatal && all.length % 2 === 1) return undefined;
      return decode("utf-16le", fatal, all.subarray(0, all.length & ~1));
    },
    toBase64: (text) => (/^[\0-\xff]*$/.test(text) ? Buffer.from(text, "latin1").toString("base64") : undefined),
    fromBase64: (text) => {
      let clean = text.replace(/[\t\n\f\r ]/g, "");
      if (clean.length % 4 === 0) clean = clean.replace(/={1,2}$/, "");
      if (clean.length % 4 === 1 || !/^[A-Za-z0-9+/]*$/.test(clean)) return undefined;
      return Buffer.from(clean, "base64").toString("latin1");
    },
  };

  // ---- timers --------------------------------------------------------------------------------------------------------

  const timers = new Map();
  // A binary heap of due times. Entries whose stamp is not their timer's any more are skipped.
  let heap = [];
  let made = 0;
  let lastTimer = 0;
  // Timers made from here on belong to the next round, so that one that renews itself cannot keep answers out.
  let round = null;
  let alarm = undefined;
  let alarmDue = Infinity;

  const before = (a, b) => a.due < b.due || (a.due === b.due && a.stamp < b.stamp);
  const isCurrent = (entry) => timers.get(entry.id)?.stamp === entry.stamp;
  const pushTimer = (entry) => {
    if (heap.length > 2 * timers.size + 1024) {
      const kept = heap.filter(isCurrent).sort((a, b) => (before(a, b) ? -1 : 1));
      heap = kept;
    }
    let at = heap.push(entry) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(entry, heap[parent])) break;
      heap[at] = heap[parent];
      at = parent;
    }
    heap[at] = entry;
  };
  const popTimer = () => {
    const last = heap.pop();
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1], heap[child])) child += 1;
      if (!before(heap[child], last)) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = last;
  };
  const nextTimer = () => {
    while (heap.length > 0 && !isCurrent(heap[0])) popTimer();
    return heap[0];
  };
  const takeDue = () => {
    const next = nextTimer();
    round ??= made;
    if (next === undefined || next.stamp >= round || next.due > performance.now()) return undefined;
    popTimer();
    const timer = timers.get(next.id);
    if (timer.every === undefined) {
      timers.delete(next.id);
    } else {
      timer.due = performance.now() + timer.every;
      timer.stamp = made++;
      pushTimer({ due: timer.due, stamp: timer.stamp, id: timer.id });
    }
    return timer;
  };
  const arm = () => {
    const due = nextTimer()?.due ?? Infinity;
    if (due === alarmDue) return;
    if (alarm !== undefined) clearTimeout(alarm);
    alarmDue = due;
    alarm = due === Infinity ? undefined : setTimeout(ring, Math.max(0, due - performance.now()));
  };
  const ring = () => {
    alarm = undefined;
    alarmDue = Infinity;
    pump();
  };

  // ---- turns ---------------------------------------------------------------------------------------------------------

  // Rejections that nobody handled. Promises are kept, not looked into.
  const unhandled = new Map();
  setPromiseRejectCallback((type, promise, reason) => {
    if (type === promiseRejectEvents.kPromiseRejectWithNoHandler) {
      if (unhandled.size < MAX_UNHANDLED) unhandled.set(promise, reason);
    } else if (type === promiseRejectEvents.kPromiseHandlerAddedAfterReject) {
      unhandled.delete(promise);
    }
  });

  let guest = undefined;
  let main = undefined;
  let started = false;

  // Lets promises settle, and looks whether that ended the run. True while it goes on.
  const turn = () => {
    runMicrotasks();
    if (ended) return false;
    if (guest.hasFailed()) {
      guest.finishUncaught();
    } else {
      const details = getPromiseDetails(main);
      if (details[0] === 0) return true;
      unhandled.delete(main);
      guest.finish(details[0] === 1, details[1]);
    }
    return false;
  };

  bridge.reportUnhandled = (report, most) => {
    unhandled.delete(main);
    let count = 0;
    for (const reason of unhandled.values()) {
      if (count++ >= most) break;
      report(reason);
    }
  };

  let pumping = false;
  const pump = () => {
    if (pumping || ended) return;
    pumping = true;
    for (;;) {
      if (early.length > 0) {
        settle(early.shift());
      } else {
        const timer = started ? takeDue() : undefined;
        if (timer !== undefined) {
          guest.fire(timer.callback, timer.values);
        } else {
          const frame = takeFrame();
          round = null;
          if (frame === undefined) break;
          if (frame.kind === START && !started) start(frame.body.toString("utf8"));
          else if (frame.kind === ANSWER) settle(answerOf(frame));
          else continue;
        }
      }
      if (ended || !turn()) return;
    }
    pumping = false;
    arm();
  };

  const settle = (answer) => {
    const call = calls.get(answer.id);
    if (call === undefined) return;
    calls.delete(answer.id);
    guest.settle(call.resolve, call.reject, call.error, call.namespace, call.name, answer.ok, answer.text);
  };

  const start = (text) => {
    started = true;
    origin = performance.now();
    const program = guest.prepare(text);
    let script;
    try {
      script = new vm.Script(PREFIX + program + "\n})", { filename: PROGRAM_FILE, lineOffset: -2 });
    } catch (error) {
      // An error of this realm: only its words go over. In front of them Node puts the place and a line that points at it.
      const told = String(error.stack);
      const place = /^program\.ts:(-?\d+)\n(.*)\n( *)\^/.exec(told);
      guest.failToCompile(String(error.message), place ? Number(place[1]) : 0, place ? place[3].length + 1 : 0);
      return;
    }
    main = guest.launch(script.runInContext(context));
  };

  // ---- the other realm -----------------------------------------------------------------------------------------------

  const MAX_FRAMES = 32;
  // The text of `error.stack`: frames of the program and nothing else. Node's own way would let the program see call sites.
  setPrepareStackTraceCallback((realm, error, sites) => {
    let text = guest === undefined || realm === globalThis ? "" : guest.headline(error);
    if (guest === undefined || realm === globalThis) {
      try {
        text = String(error);
      } catch {
        text = "Error";
      }
      if (types.isNativeError(error) && guest === undefined) for (const site of sites) text += "\n    at " + site;
      return text;
    }
    let count = 0;
    for (let i = 0; i < sites.length && count < MAX_FRAMES; i++) {
      const site = sites[i];
      if (site.getFileName() !== PROGRAM_FILE || site.getLineNumber() < 1) continue;
      const name = site.getFunctionName();
      const place = PROGRAM_FILE + ":" + site.getLineNumber() + ":" + site.getColumnNumber();
      text += name ? "\n    at " + name + " (" + place + ")" : "\n    at " + place;
      count += 1;
    }
    return text;
  });

  const context = vm.constants?.DONT_CONTEXTIFY
    ? vm.createContext(vm.constants.DONT_CONTEXTIFY, { codeGeneration: { strings: true, wasm: false } })
    : vm.createContext(Object.create(null), { codeGeneration: { strings: true, wasm: false } });
  const evaluate = (name) => new vm.Script(sources[name], { filename: "toolweave:" + name }).runInContext(context);
  guest = evaluate("guest")(bridge, evaluate("prelude"));
  // Without this, `import()` would answer with a promise of this realm.
  setImportModuleDynamicallyCallback((_, specifier) => guest.refuseImport(specifier));

  // What loads files, makes threads or reads settings when it is first used.
  new vm.Script(
    "new Date().toString(); new Date().toLocaleString(); (1e6).toLocaleString(); 'a'.localeCompare('b'); [].toLocaleString();" +
      "new Intl.DateTimeFormat('de', { timeZone: 'Europe/Berlin' }).format(0); 'I'.toLocaleLowerCase('tr'); 'é'.normalize('NFD')",
  ).runInContext(context);
  bridge.urlParse("http://bücher.example/", undefined);
  decode("utf-8", false, nothing);
  decode("utf-16le", false, nothing);
  new TextDecoder("utf-8", { fatal: true });
  bridge.toBase64("x");

  // Nothing of Node is left to be found, should anything ever find this realm.
  const keep = new Set(["globalThis", "Infinity", "NaN", "undefined"]);
  const language = new Set(sources.language);
  for (const name of Reflect.ownKeys(globalThis)) {
    if (!keep.has(name) && !language.has(name)) delete globalThis[name];
  }

  const incoming = { buffer: Buffer.allocUnsafeSlow(256 * 1024) };
  incoming.callback = (length, bytes) => {
    feed(bytes, length);
    pump();
    return true;
  };
  const socket = new Socket({ fd: SOCKET, readable: true, writable: false, onread: incoming });
  socket.on("end", gone);
  socket.on("close", gone);
  socket.on("error", gone);
  baseline = resourceUsage().maxRSS * 1024;
  writeSync(SOCKET, Buffer.from([READY]), 0, 1, null);
})
