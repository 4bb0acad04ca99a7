// The part of the global object that is easier to say in JavaScript. Evaluated once per engine, before any program: what it
// needs of the language it takes here, so that a program that replaces built-ins deceives nobody but itself.
(function (native, global) {
  "use strict";

  const { apply, defineProperty, getOwnPropertyDescriptor, ownKeys } = Reflect;
  const { setTimeout, clearTimeout } = global;
  const ErrorConstructor = Error;
  const mapForEach = Map.prototype.forEach;
  const setForEach = Set.prototype.forEach;
  const mapSize = getOwnPropertyDescriptor(Map.prototype, "size").get;
  const setSize = getOwnPropertyDescriptor(Set.prototype, "size").get;
  const performanceNow = () => native.now();

  const expose = (name, value) =>
    defineProperty(global, name, { value, writable: true, configurable: true, enumerable: false });

  const tag = (constructor, name) =>
    defineProperty(constructor.prototype, Symbol.toStringTag, { value: name, configurable: true });

  // ---- console -------------------------------------------------------------------------------------------------------

  const counts = new Map();
  const clocks = new Map();
  const print = native.print;
  const elapsed = (label) => {
    const started = clocks.get(label);
    if (started === undefined) return undefined;
    return `${label}: ${(performanceNow() - started).toFixed(3)}ms`;
  };

  const cell = (value) => (typeof value === "string" ? value : native.inspect(value, 1));
  const table = (data, columns) => {
    if (data === null || typeof data !== "object") return native.log(data);
    const rows = [];
    const entries = data instanceof Map ? [...data] : data instanceof Set ? [...data].entries() : Object.entries(data);
    const names = [];
    let hasValues = false;
    for (const [key, row] of entries) {
      const cells = new Map();
      if (row !== null && typeof row === "object") {
        for (const name of Object.keys(row)) {
          if (columns !== undefined && !columns.includes(name)) continue;
          if (!names.includes(name)) names.push(name);
          cells.set(name, cell(row[name]));
        }
      } else {
        hasValues = true;
      }
      rows.push([String(key), cells, row !== null && typeof row === "object" ? "" : cell(row)]);
    }
    const head = ["(index)", ...names, ...(hasValues ? ["Values"] : [])];
    const body = rows.map(([key, cells, value]) => [
      key,
      ...names.map((name) => cells.get(name) ?? ""),
      ...(hasValues ? [value] : []),
    ]);
    const line = (cells) => `| ${cells.join(" | ")} |`;
    print([line(head), line(head.map(() => "---")), ...body.map(line)].join("\n"));
  };

  const console = {
    log: native.log,
    info: native.log,
    warn: native.log,
    error: native.log,
    debug: native.log,
    trace(...values) {
      print(values.length > 0 ? `Trace: ${native.format(...values)}` : "Trace");
    },
    dir(value, options) {
      const depth = options?.depth;
      print(native.inspect(value, depth === null ? null : depth));
    },
    dirxml: native.log,
    table,
    assert(condition, ...values) {
      if (condition) return;
      print(values.length > 0 ? `Assertion failed: ${native.format(...values)}` : "Assertion failed");
    },
    count(label = "default") {
      label = String(label);
      const count = (counts.get(label) ?? 0) + 1;
      counts.set(label, count);
      print(`${label}: ${count}`);
    },
    countReset(label = "default") {
      counts.delete(String(label));
    },
    time(label = "default") {
      clocks.set(String(label), performanceNow());
    },
    timeLog(label = "default", ...values) {
      const text = elapsed(String(label));
      if (text !== undefined) print(values.length > 0 ? `${text} ${native.format(...values)}` : text);
    },
    timeEnd(label = "default") {
      const text = elapsed(String(label));
      clocks.delete(String(label));
      if (text !== undefined) print(text);
    },
    group(...values) {
      if (values.length > 0) native.log(...values);
      native.indent(true);
    },
    groupCollapsed(...values) {
      console.group(...values);
    },
    groupEnd() {
      native.indent(false);
    },
  };
  expose("console", console);

  // ---- clocks and microtasks -----------------------------------------------------------------------------------------

  const performance = {
    now: performanceNow,
    get timeOrigin() {
      return Date.now() - performanceNow();
    },
  };
  defineProperty(performance, Symbol.toStringTag, { value: "Performance", configurable: true });
  expose("performance", performance);

  const resolved = Promise.resolve();
  const then = Promise.prototype.then;
  const fail = (error) => setTimeout(() => { throw error; }, 0);
  expose("queueMicrotask", function queueMicrotask(callback) {
    if (typeof callback !== "function") throw new TypeError("queueMicrotask needs a function to call");
    apply(then, resolved, [() => void callback()]).catch(fail);
  });

  // ---- URL -----------------------------------------------------------------------------------------------------------

  const HREF = 0, ORIGIN = 1, PROTOCOL = 2, USERNAME = 3, PASSWORD = 4, HOST = 5, HOSTNAME = 6, PORT = 7, PATHNAME = 8,
    SEARCH = 9, HASH = 10;

  class URLSearchParams {
    #list = [];
    #changed = undefined;

    constructor(init = "") {
      if (init !== null && typeof init === "object") {
        if (typeof init[Symbol.iterator] === "function") {
          for (const pair of init) {
            const [name, value, ...rest] = pair;
            if (rest.length > 0 || [...pair].length !== 2) throw new TypeError("each parameter needs a name and a value");
            this.#list.push([String(name), String(value)]);
          }
        } else {
          for (const name of Object.keys(init)) this.#list.push([name, String(init[name])]);
        }
      } else {
        this.#read(String(init));
      }
    }

    static linked(text, changed) {
      const params = new URLSearchParams(text);
      params.#changed = changed;
      return params;
    }

    static reread(params, text) {
      params.#list = [];
      params.#read(text);
    }

    #read(text) {
      const flat = native.formParse(text.startsWith("?") ? text.slice(1) : text);
      for (let i = 0; i < flat.length; i += 2) this.#list.push([flat[i], flat[i + 1]]);
    }

    #update() {
      if (this.#changed !== undefined) this.#changed(this.toString());
    }

    get size() {
      return this.#list.length;
    }

    append(name, value) {
      this.#list.push([String(name), String(value)]);
      this.#update();
    }

    delete(name, value) {
      name = String(name);
      this.#list = this.#list.filter(([n, v]) => n !== name || (value !== undefined && v !== String(value)));
      this.#update();
    }

    get(name) {
      name = String(name);
      return this.#list.find(([n]) => n === name)?.[1] ?? null;
    }

    getAll(name) {
      name = String(name);
      return this.#list.filter(([n]) => n === name).map(([, v]) => v);
    }

    has(name, value) {
      name = String(name);
      return this.#list.some(([n, v]) => n === name && (value === undefined || v === String(value)));
    }

    set(name, value) {
      name = String(name);
      const first = this.#list.findIndex(([n]) => n === name);
      if (first < 0) {
        this.#list.push([name, String(value)]);
      } else {
        this.#list[first][1] = String(value);
        this.#list = this.#list.filter(([n], i) => n !== name || i === first);
      }
      this.#update();
    }

    sort() {
      this.#list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      this.#update();
    }

    forEach(callback, self) {
      for (const [name, value] of this.#list) apply(callback, self, [value, name, this]);
    }

    *entries() {
      for (let i = 0; i < this.#list.length; i++) yield [...this.#list[i]];
    }

    *keys() {
      for (const [name] of this.entries()) yield name;
    }

    *values() {
      for (const [, value] of this.entries()) yield value;
    }

    [Symbol.iterator]() {
      return this.entries();
    }

    toString() {
      return native.formSerialize(this.#list.flat());
    }
  }
  const { linked, reread } = URLSearchParams;
  delete URLSearchParams.linked;
  delete URLSearchParams.reread;
  tag(URLSearchParams, "URLSearchParams");
  expose("URLSearchParams", URLSearchParams);

  class URL {
    #parts;
    #params = undefined;

    constructor(url, base) {
      url = String(url);
      this.#parts = native.urlParse(url, base === undefined ? undefined : String(base));
      if (this.#parts === undefined) {
        const error = new TypeError(`Invalid URL: ${url}`);
        error.code = "ERR_INVALID_URL";
        error.input = url;
        throw error;
      }
    }

    static canParse(url, base) {
      return native.urlParse(String(url), base === undefined ? undefined : String(base)) !== undefined;
    }

    static parse(url, base) {
      return URL.canParse(url, base) ? new URL(url, base) : null;
    }

    #set(property, value) {
      this.#parts = native.urlSet(this.#parts[HREF], property, String(value));
      if (this.#params !== undefined) reread(this.#params, this.#parts[SEARCH]);
    }

    get href() { return this.#parts[HREF]; }
    set href(value) {
      const parts = native.urlParse(String(value), undefined);
      if (parts === undefined) throw new TypeError(`Invalid URL: ${value}`);
      this.#parts = parts;
      if (this.#params !== undefined) reread(this.#params, parts[SEARCH]);
    }
    get origin() { return this.#parts[ORIGIN]; }
    get protocol() { return this.#parts[PROTOCOL]; }
    set protocol(value) { this.#set("protocol", value); }
    get username() { return this.#parts[USERNAME]; }
    set username(value) { this.#set("username", value); }
    get password() { return this.#parts[PASSWORD]; }
    set password(value) { this.#set("password", value); }
    get host() { return this.#parts[HOST]; }
    set host(value) { this.#set("host", value); }
    get hostname() { return this.#parts[HOSTNAME]; }
    set hostname(value) { this.#set("hostname", value); }
    get port() { return this.#parts[PORT]; }
    set port(value) { this.#set("port", value); }
    get pathname() { return this.#parts[PATHNAME]; }
    set pathname(value) { this.#set("pathname", value); }
    get search() { return this.#parts[SEARCH]; }
    set search(value) { this.#set("search", value); }
    get hash() { return this.#parts[HASH]; }
    set hash(value) { this.#set("hash", value); }

    get searchParams() {
      this.#params ??= linked(this.#parts[SEARCH], (text) => {
        this.#parts = native.urlSet(this.#parts[HREF], "search", text);
      });
      return this.#params;
    }

    toString() { return this.#parts[HREF]; }
    toJSON() { return this.#parts[HREF]; }
  }
  tag(URL, "URL");
  expose("URL", URL);

  // ---- text ----------------------------------------------------------------------------------------------------------

  class TextEncoder {
    get encoding() { return "utf-8"; }

    encode(text = "") {
      return native.encodeUtf8(String(text));
    }

    encodeInto(text, target) {
      text = String(text);
      let read = 0;
      let written = 0;
      for (const character of text) {
        const bytes = native.encodeUtf8(character);
        if (written + bytes.length > target.length) break;
        target.set(bytes, written);
        written += bytes.length;
        read += character.length;
      }
      return { read, written };
    }
  }
  tag(TextEncoder, "TextEncoder");
  expose("TextEncoder", TextEncoder);

  const encodings = new Map([
    ["utf-8", "utf-8"], ["utf8", "utf-8"], ["unicode-1-1-utf-8", "utf-8"], ["utf-16le", "utf-16le"], ["utf-16", "utf-16le"],
  ]);
  class TextDecoder {
    #encoding;
    #fatal;
    #ignoreBOM;
    #rest = [];
    #fresh = true;

    constructor(label = "utf-8", options = {}) {
      this.#encoding = encodings.get(String(label).trim().toLowerCase());
      if (this.#encoding === undefined) {
        throw new RangeError(`The encoding ${label} is not supported: use utf-8 or utf-16le`);
      }
      this.#fatal = Boolean(options?.fatal);
      this.#ignoreBOM = Boolean(options?.ignoreBOM);
    }

    get encoding() { return this.#encoding; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBOM; }

    decode(input = new Uint8Array(0), options = {}) {
      const stream = Boolean(options?.stream);
      let bytes = ArrayBuffer.isView(input)
        ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength)
        : new Uint8Array(input);
      if (this.#rest.length > 0) bytes = Uint8Array.from([...this.#rest, ...bytes]);
      this.#rest = [];
      let text;
      if (this.#encoding === "utf-8") {
        const [decoded, rest] = native.decodeUtf8(bytes, this.#fatal, stream);
        text = decoded;
        if (rest > 0) this.#rest = [...bytes.subarray(bytes.length - rest)];
      } else {
        if (stream && bytes.length % 2 === 1) {
          this.#rest = [bytes[bytes.length - 1]];
          bytes = bytes.subarray(0, bytes.length - 1);
        }
        text = native.decodeUtf16(bytes, this.#fatal);
      }
      if (this.#fresh && !this.#ignoreBOM && text.startsWith("\ufeff")) text = text.slice(1);
      this.#fresh = !stream;
      return text;
    }
  }
  tag(TextDecoder, "TextDecoder");
  expose("TextDecoder", TextDecoder);

  // ---- events and abort signals --------------------------------------------------------------------------------------

  class Event {
    #type;
    #cancelable;
    #prevented = false;
    #stopped = false;
    #target = null;
    #time = performanceNow();

    constructor(type, options = {}) {
      this.#type = String(type);
      this.#cancelable = Boolean(options?.cancelable);
    }

    static aim(event, target) { event.#target = target; }
    static isStopped(event) { return event.#stopped; }

    get type() { return this.#type; }
    get target() { return this.#target; }
    get currentTarget() { return this.#target; }
    get cancelable() { return this.#cancelable; }
    get defaultPrevented() { return this.#prevented; }
    get timeStamp() { return this.#time; }
    preventDefault() { if (this.#cancelable) this.#prevented = true; }
    stopPropagation() {}
    stopImmediatePropagation() { this.#stopped = true; }
  }
  const { aim, isStopped } = Event;
  delete Event.aim;
  delete Event.isStopped;
  tag(Event, "Event");
  expose("Event", Event);

  class EventTarget {
    #listeners = new Map();

    addEventListener(type, listener, options) {
      if (listener === null || listener === undefined) return;
      const { once = false, signal } = typeof options === "object" && options !== null ? options : {};
      if (signal?.aborted) return;
      type = String(type);
      const list = this.#listeners.get(type) ?? [];
      if (list.some((known) => known.listener === listener)) return;
      this.#listeners.set(type, [...list, { listener, once }]);
      signal?.addEventListener("abort", () => this.removeEventListener(type, listener), { once: true });
    }

    removeEventListener(type, listener) {
      type = String(type);
      const list = this.#listeners.get(type);
      if (list !== undefined) this.#listeners.set(type, list.filter((known) => known.listener !== listener));
    }

    dispatchEvent(event) {
      aim(event, this);
      for (const { listener, once } of this.#listeners.get(event.type) ?? []) {
        if (once) this.removeEventListener(event.type, listener);
        try {
          if (typeof listener === "function") apply(listener, this, [event]);
          else listener.handleEvent(event);
        } catch (error) {
          fail(error);
        }
        if (isStopped(event)) break;
      }
      return !event.defaultPrevented;
    }
  }
  tag(EventTarget, "EventTarget");
  expose("EventTarget", EventTarget);

  let mayConstruct = false;
  class AbortSignal extends EventTarget {
    #aborted = false;
    #reason = undefined;
    onabort = null;

    constructor() {
      super();
      if (!mayConstruct) throw new TypeError("Illegal constructor: use new AbortController().signal");
      defineProperty(this, "onabort", { enumerable: false });
    }

    static make() {
      mayConstruct = true;
      try {
        return new AbortSignal();
      } finally {
        mayConstruct = false;
      }
    }

    static trigger(signal, reason) {
      if (signal.#aborted) return;
      signal.#aborted = true;
      signal.#reason = reason === undefined ? new DOMException("This operation was aborted", "AbortError") : reason;
      const event = new Event("abort");
      if (typeof signal.onabort === "function") {
        try {
          apply(signal.onabort, signal, [event]);
        } catch (error) {
          fail(error);
        }
      }
      signal.dispatchEvent(event);
    }

    static abort(reason) {
      const signal = make();
      trigger(signal, reason);
      return signal;
    }

    static timeout(ms) {
      const signal = make();
      setTimeout(() => trigger(signal, new DOMException("The operation was aborted due to timeout", "TimeoutError")), ms);
      return signal;
    }

    static any(signals) {
      const combined = make();
      for (const signal of signals) {
        if (signal.aborted) {
          trigger(combined, signal.reason);
          break;
        }
        signal.addEventListener("abort", () => trigger(combined, signal.reason), { once: true });
      }
      return combined;
    }

    get aborted() { return this.#aborted; }
    get reason() { return this.#reason; }
    throwIfAborted() { if (this.#aborted) throw this.#reason; }
  }
  const { make, trigger } = AbortSignal;
  delete AbortSignal.make;
  delete AbortSignal.trigger;
  tag(AbortSignal, "AbortSignal");
  expose("AbortSignal", AbortSignal);

  class AbortController {
    #signal = make();
    get signal() { return this.#signal; }
    abort(reason) { trigger(this.#signal, reason); }
  }
  tag(AbortController, "AbortController");
  expose("AbortController", AbortController);

  // ---- structuredClone -----------------------------------------------------------------------------------------------

  const errorConstructors = new Map(
    [Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].map((c) => [c.name, c]),
  );
  const refuse = (what) => {
    throw new DOMException(`${what} could not be cloned.`, "DataCloneError");
  };
  const typedArray = Object.getPrototypeOf(Uint8Array);
  const copy = (value, seen) => {
    if (typeof value === "symbol") refuse(String(value));
    if (typeof value === "function") refuse(`The function ${value.name || "(anonymous)"}`);
    if (value === null || typeof value !== "object") return value;
    if (seen.has(value)) return seen.get(value);
    const keep = (made) => {
      seen.set(value, made);
      return made;
    };
    const kind = native.classOf(value);
    switch (kind) {
      case "Date":
        return keep(new Date(value.getTime()));
      case "RegExp":
        return keep(new RegExp(value.source, value.flags));
      case "Number":
      case "String":
      case "Boolean":
      case "BigInt":
        return keep(Object(value.valueOf()));
      case "ArrayBuffer":
        return keep(value.slice(0));
      case "DataView":
        return keep(new DataView(copy(value.buffer, seen), value.byteOffset, value.byteLength));
      case "Map": {
        const made = keep(new Map());
        for (const [key, item] of [...value]) made.set(copy(key, seen), copy(item, seen));
        return made;
      }
      case "Set": {
        const made = keep(new Set());
        for (const item of [...value]) made.add(copy(item, seen));
        return made;
      }
      case "Error": {
        const constructor = errorConstructors.get(value.name) ?? ErrorConstructor;
        const made = keep(Object.create(constructor.prototype));
        const error = new constructor(String(value.message));
        seen.set(value, error);
        if (Object.hasOwn(value, "cause")) {
          defineProperty(error, "cause", { value: copy(value.cause, seen), writable: true, configurable: true });
        }
        void made;
        return error;
      }
      case "Array": {
        const made = keep(new Array(value.length));
        for (const key of Object.keys(value)) made[key] = copy(value[key], seen);
        return made;
      }
      case "Object":
      case "Arguments": {
        const made = keep({});
        for (const key of Object.keys(value)) {
          defineProperty(made, key, { value: copy(value[key], seen), writable: true, enumerable: true, configurable: true });
        }
        return made;
      }
      default:
        if (value instanceof typedArray) {
          const buffer = copy(value.buffer, seen);
          return keep(new value.constructor(buffer, value.byteOffset, value.length));
        }
        return refuse(`An object of ${kind}`);
    }
  };
  expose("structuredClone", function structuredClone(value) {
    return copy(value, new Map());
  });

  // ---- locales, made when first asked for ------------------------------------------------------------------------------

  const numberValueOf = Number.prototype.valueOf;
  // An engine with locales of its own keeps them.
  if (native.loadIntl !== undefined) {
    let locales;
    const intl = () => (locales ??= native.loadIntl()(native));
    defineProperty(global, "Intl", {
      get: () => intl().Intl,
      set: (value) => expose("Intl", value),
      configurable: true,
      enumerable: false,
    });
    const method = (prototype, name, value) =>
      defineProperty(prototype, name, { value, writable: true, configurable: true, enumerable: false });
    const { collate } = native;
    const bigintValueOf = BigInt.prototype.valueOf;
    const getTime = Date.prototype.getTime;

    method(String.prototype, "localeCompare", {
      localeCompare(that, locales, options) {
        if (this === undefined || this === null) throw new TypeError("localeCompare called on null or undefined");
        if (locales === undefined && options === undefined) return collate("en-US", "v", String(this), String(that));
        return intl().localeCompare(String(this), String(that), locales, options);
      },
    }.localeCompare);
    for (const name of ["toLocaleLowerCase", "toLocaleUpperCase"]) {
      const convert = String.prototype[name];
      method(String.prototype, name, {
        [name](locales) {
          if (locales !== undefined) intl().checkCase(locales);
          return apply(convert, this, []);
        },
      }[name]);
    }
    method(Number.prototype, "toLocaleString", {
      toLocaleString(locales, options) { return intl().localNumber(apply(numberValueOf, this, []), locales, options); },
    }.toLocaleString);
    method(BigInt.prototype, "toLocaleString", {
      toLocaleString(locales, options) { return intl().localNumber(apply(bigintValueOf, this, []), locales, options); },
    }.toLocaleString);
    for (const [name, required, defaults] of [
      ["toLocaleString", "any", "all"],
      ["toLocaleDateString", "date", "date"],
      ["toLocaleTimeString", "time", "time"],
    ]) {
      method(Date.prototype, name, {
        [name](locales, options) { return intl().localDate(apply(getTime, this, []), locales, options, required, defaults); },
      }[name]);
    }
  }

  // ---- what the engine's own code needs ------------------------------------------------------------------------------

  const MAX_COLLECTED = 100;
  return {
    opaque: [URLSearchParams, TextEncoder, TextDecoder, Event, EventTarget, AbortSignal, AbortController].map(
      (constructor) => constructor.prototype,
    ),
    samples: [new Date(0), new Number(0), new String(""), new Boolean(false)],
    numberValueOf,
    stringValueOf: String.prototype.valueOf,
    booleanValueOf: Boolean.prototype.valueOf,
    errorStack: getOwnPropertyDescriptor(Error.prototype, "stack").get,
    dateToIso: Date.prototype.toISOString,
    regexpToString: RegExp.prototype.toString,
    collect(collection, isMap) {
      const list = [apply(isMap ? mapSize : setSize, collection, [])];
      let count = 0;
      apply(isMap ? mapForEach : setForEach, collection, [
        (value, key) => {
          if (++count > MAX_COLLECTED) return;
          if (isMap) list[list.length] = key;
          list[list.length] = value;
        },
      ]);
      return list;
    },
    makeErrorClass(name, property) {
      const made = class extends ErrorConstructor {
        constructor(message, member) {
          super(message);
          if (member !== undefined) {
            defineProperty(this, property, { value: member, writable: true, enumerable: true, configurable: true });
          }
        }
      };
      defineProperty(made, "name", { value: name, configurable: true });
      defineProperty(made.prototype, "name", { value: name, writable: true, configurable: true });
      return made;
    },
  };
})
