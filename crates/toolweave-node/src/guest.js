// What a program finds around it, and what looks at its values. It runs in the program's own realm, so that whatever it hands
// to the program, runs of it, or throws at it belongs to that realm; the other side (`host.js`) is reached through `bridge`,
// by strings and numbers.
//
// The program can replace every built-in of this realm. So everything that is needed of the language is taken here, before
// the program exists, and is called by `apply`; data is kept in objects without a prototype. It says and shows what the
// QuickJS engine says and shows (`toolweave-quickjs`: encode.rs, inspect.rs, console.rs, namespace.rs, failure.rs).
(function (bridge, prelude) {
  "use strict";

  const global = globalThis;
  const { apply, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys, has } = Reflect;
  const { parse, stringify } = JSON;
  const { isArray } = Array;
  const { keys: enumerableKeys, preventExtensions, setPrototypeOf } = Object;
  const { isFinite: isFiniteNumber, isInteger } = Number;
  const { floor, trunc, min, max } = Math;
  const ErrorClass = Error, TypeErrorClass = TypeError, RangeErrorClass = RangeError, SyntaxErrorClass = SyntaxError;
  const PromiseClass = Promise, ProxyClass = Proxy, SetClass = Set, WeakSetClass = WeakSet, Bytes = Uint8Array;
  const toNumber = Number, toBigInt = BigInt;
  const objectPrototype = Object.prototype, arrayPrototype = Array.prototype, functionPrototype = Function.prototype;
  const method = (f) => (self, ...values) => apply(f, self, values);
  const hasOwn = method(objectPrototype.hasOwnProperty);
  const setHas = method(Set.prototype.has), setAdd = method(Set.prototype.add), setDelete = method(Set.prototype.delete);
  const weakHas = method(WeakSet.prototype.has), weakAdd = method(WeakSet.prototype.add);
  const slice = method(String.prototype.slice), codeAt = method(String.prototype.charCodeAt);
  const indexOf = method(String.prototype.indexOf), startsWith = method(String.prototype.startsWith);
  const endsWith = method(String.prototype.endsWith), split = method(String.prototype.split);
  const replaceAll = method(String.prototype.replaceAll), repeat = method(String.prototype.repeat);
  const isWellFormed = method(String.prototype.isWellFormed);
  const matches = method(RegExp.prototype.exec);
  const rejectPromise = ((make) => (error) => apply(make, PromiseClass, [error]))(Promise.reject);
  const unbox = {
    __proto__: null,
    Number: Number.prototype.valueOf,
    String: String.prototype.valueOf,
    Boolean: Boolean.prototype.valueOf,
  };
  const dateToIso = method(Date.prototype.toISOString);
  const regexpToString = method(RegExp.prototype.toString);
  const symbolToString = method(Symbol.prototype.toString);
  const { toPrimitive, iterator, asyncIterator } = Symbol;
  // An own accessor in newer engines, an own value in older ones.
  const stackGetter = getOwnPropertyDescriptor(new Error(), "stack").get;

  // Whatever the other side throws is of the other realm, and can only mean that the stack is full.
  const guarded = (f) => (a, b, c, d, e, g, h) => {
    try {
      return f(a, b, c, d, e, g, h);
    } catch {
      throw new RangeErrorClass("Maximum call stack size exceeded");
    }
  };
  const host = { __proto__: null };
  for (const name of ownKeys(bridge)) host[name] = guarded(bridge[name]);

  // A list that does not see what a program puts into `Array.prototype`.
  const list = () => setPrototypeOf([], null);
  const push = (items, item) => {
    items[items.length] = item;
  };

  const IDENTIFIER = /^[\p{Alphabetic}_$][\p{Alphabetic}\p{N}_$]*$/u;
  const isIdentifier = (text) => matches(IDENTIFIER, text) !== null;
  const plural = (count) => (count === 1 ? "" : "s");
  // Bytes of a text as the host counts them; most are as long as they look.
  const bytes = (text) => host.utf8Length(text);
  const cut = (text, most) => (text.length > most ? slice(text, 0, most) : text);

  // ---- the run -------------------------------------------------------------------------------------------------------

  let limits = { __proto__: null, strict: false, maxFrame: 0, maxOutput: 0, maxDepth: 0 };
  let source = "";
  const namespaces = list();
  const namespaceObjects = new WeakSetClass();
  let failed = false;
  let uncaught = undefined;

  const fail = (error) => {
    if (failed) return;
    failed = true;
    uncaught = error;
  };

  // ---- values as JSON ------------------------------------------------------------------------------------------------

  // Thrown inside `encode` only, and never out of it.
  const refusal = (path, reason) => ({ __proto__: null, path, reason, tooLong: false });

  const arrayIterators = new SetClass();
  const noteIterator = (made) => setAdd(arrayIterators, getPrototypeOf(made));
  noteIterator([][iterator]());
  noteIterator(""[iterator]());
  noteIterator("a".matchAll(/a/g));
  if (typeof Iterator === "function") {
    noteIterator([].values().map((x) => x));
    noteIterator(Iterator.from({ next() {} }));
  }
  const asyncGenerator = getPrototypeOf(async function* () {}.prototype);
  const weakRef = WeakRef.prototype, registry = FinalizationRegistry.prototype;

  // The engine's own class of an object, which a program cannot forge, in the words of the other engine.
  const classOf = (value) => {
    const name = host.classOf(value);
    if (name === "Generator") {
      const prototype = getPrototypeOf(value);
      return prototype !== null && getPrototypeOf(prototype) === asyncGenerator ? "AsyncGenerator" : name;
    }
    if (name !== "Object") return name;
    const prototype = getPrototypeOf(value);
    if (prototype === null || prototype === objectPrototype) return name;
    if (prototype === weakRef) return "WeakRef";
    if (prototype === registry) return "FinalizationRegistry";
    if (setHas(arrayIterators, prototype)) {
      const tag = getOwnPropertyDescriptor(prototype, Symbol.toStringTag);
      return tag !== undefined && typeof tag.value === "string" ? tag.value : "Iterator Helper";
    }
    return name;
  };

  const article = (name) => (matches(/^[AEIOUaeiou]/, name) !== null && !startsWith(name, "Ui") ? "an " : "a ") + name;

  const whyNot = (name) => {
    if (name === "Promise") return "is a promise: an await is missing";
    let fix = "turn it into plain data first";
    if (name === "Map") fix = "use Object.fromEntries(map), or Array.from(map)";
    else if (name === "Set") fix = "use Array.from(set)";
    else if (name === "WeakMap" || name === "WeakSet" || name === "WeakRef") fix = "it cannot be listed";
    else if (name === "RegExp") fix = "use its source, or String(regexp)";
    else if (name === "Date") fix = "use date.toISOString()";
    else if (name === "Error") fix = "use its name and message";
    else if (name === "Arguments") fix = "use Array.from(arguments)";
    else if (unbox[name] !== undefined) fix = "use the primitive, value.valueOf()";
    else if (name === "ArrayBuffer" || name === "SharedArrayBuffer" || name === "DataView") {
      fix = "send text, or Array.from(new Uint8Array(buffer)) for the numbers";
    } else if (name === "Generator" || name === "AsyncGenerator") {
      fix = "use Array.from(generator), or collect its items in a loop";
    } else if (endsWith(name, "Array")) fix = "use Array.from(array) for the numbers, or send text";
    else if (indexOf(name, "Iterator") >= 0) fix = "use Array.from(iterator)";
    return `is ${article(name)}, which JSON cannot hold: ${fix}`;
  };

  let opaque = list();
  const opaqueNames = [
    "URLSearchParams", "TextEncoder", "TextDecoder", "Event", "EventTarget", "AbortSignal", "AbortController",
  ];
  setPrototypeOf(opaqueNames, null);

  const opaqueReason = (prototype) => {
    for (let i = 0; i < opaque.length; i++) {
      if (opaque[i] !== prototype) continue;
      const name = opaqueNames[i];
      const fix =
        name === "URLSearchParams" ? "use Object.fromEntries(params), or String(params)" : "turn it into plain data first";
      return `is an object of ${name}, which JSON cannot hold: ${fix}`;
    }
    return undefined;
  };

  const shorten = (path) => {
    const HALF = 100;
    if (path.length <= 2 * HALF + 3) return path;
    return `${slice(path, 0, HALF)}…${slice(path, path.length - HALF)}`;
  };

  // Writes one value. Returns its text, undefined for `undefined`, or throws a refusal.
  const encodeOne = (root, argument, maxBytes, soFar) => {
    const { strict, maxDepth } = limits;
    let out = "";
    // The innermost open array or object.
    let level = null;
    let depth = 0;
    const open = new SetClass();

    const refuse = (reason) => {
      const steps = list();
      for (let at = level; at !== null; at = at.parent) push(steps, at);
      let path = argument > 0 ? `arguments[${argument}]` : "";
      for (let i = steps.length - 1; i >= 0; i--) {
        const at = steps[i];
        const index = max(at.next - 1, 0);
        if (at.keys === null) {
          path += `[${index}]`;
        } else {
          const key = index < at.keys.length ? at.keys[index] : "";
          if (isIdentifier(key)) path += path === "" ? key : `.${key}`;
          else path += `[${stringify(wellFormed(key))}]`;
        }
      }
      return refusal(shorten(path), reason);
    };
    const contain = (error, what) => refuse(`${what}: ${brief(error)}`);

    const replace = (value, key) => {
      if (strict || value === null || (typeof value !== "object" && typeof value !== "function")) return value;
      let toJSON;
      try {
        toJSON = value.toJSON;
      } catch (error) {
        throw contain(error, "could not be read");
      }
      if (typeof toJSON !== "function") return value;
      let replaced;
      try {
        replaced = apply(toJSON, value, [key]);
      } catch (error) {
        throw contain(error, "has a toJSON that threw");
      }
      if (replaced === null && classOf(value) === "Date") throw refuse("is an invalid Date");
      return replaced;
    };

    const openLevel = (object, identity, isList) => {
      if (setHas(open, identity)) throw refuse("is a circular reference to an object that contains it");
      if (depth >= maxDepth) throw refuse(`is nested deeper than ${maxDepth} levels`);
      let keys = null;
      let length = 0;
      try {
        if (isList) length = object.length;
        else keys = enumerableKeys(object);
      } catch (error) {
        throw contain(error, "could not be read");
      }
      if (isList && !(typeof length === "number" && isInteger(length) && length >= 0)) length = 0;
      setAdd(open, identity);
      depth += 1;
      out += isList ? "[" : "{";
      level = { __proto__: null, object, identity, keys, length: isList ? length : keys.length, next: 0, empty: true, parent: level };
    };

    const checkPlain = (value, isList) => {
      let prototype, keys;
      try {
        prototype = getPrototypeOf(value);
        keys = ownKeys(value);
      } catch (error) {
        throw contain(error, "could not be read");
      }
      const plain = isList ? prototype === arrayPrototype : prototype === objectPrototype || prototype === null;
      if (!plain) throw refuse("is a class instance, not plain data");
      if (isList) {
        if (keys.length > value.length + 1) throw refuse("is an array with extra properties");
        return;
      }
      for (let i = 0; i < keys.length; i++) {
        const key = keys[i];
        if (typeof key === "symbol") throw refuse("has a symbol as a key");
        if (!getOwnPropertyDescriptor(value, key).enumerable) throw refuse(`has the hidden property ${key}`);
      }
    };

    // Writes a scalar, or opens a level.
    const write = (value) => {
      switch (typeof value) {
        case "undefined":
          if (strict) throw refuse("is undefined");
          out += "null";
          return;
        case "boolean":
          out += value ? "true" : "false";
          return;
        case "number":
          if (!isFiniteNumber(value)) throw refuse(`is ${value}: check the arithmetic, or use null`);
          if (strict && value === 0 && 1 / value < 0) throw refuse("is -0: use 0");
          out += numberText(value);
          return;
        case "bigint":
          throw refuse("is a BigInt: use String(value), or Number(value) if it is small enough");
        case "symbol":
          throw refuse("is a symbol: use a string");
        case "string":
          if (!isWellFormed(value)) {
            throw refuse(
              "is a string with an unpaired surrogate: cut strings between characters, for example with " +
                "Array.from(text), or call text.toWellFormed()",
            );
          }
          out += stringify(value);
          return;
        case "function":
          throw refuse("is a function: call it, or leave it out");
      }
      if (value === null) {
        out += "null";
        return;
      }
      if (weakHas(namespaceObjects, value)) {
        throw refuse(strict ? whyNot("Object") : "is the object that holds the tools, not data");
      }
      let isList;
      try {
        isList = isArray(value);
      } catch (error) {
        throw contain(error, "could not be read");
      }
      if (strict) {
        const name = classOf(value);
        if (name === "Proxy") throw refuse("is a Proxy");
        if (name !== "Array" && name !== "Object") throw refuse(whyNot(name));
        checkPlain(value, isList);
        return openLevel(value, value, isList);
      }
      if (isList) return openLevel(value, value, true);
      let prototype;
      try {
        prototype = getPrototypeOf(value);
      } catch (error) {
        throw contain(error, "could not be read");
      }
      if (prototype === objectPrototype || prototype === null) {
        if (typeof value === "object") return openLevel(value, value, false);
      }
      const name = classOf(value);
      if (name === "Proxy") return openLevel(value, value, false);
      if (name === "Object") {
        const reason = opaqueReason(prototype);
        if (reason !== undefined) throw refuse(reason);
        return openLevel(value, value, false);
      }
      if (name === "Error") {
        let plain;
        try {
          plain = errorAsObject(value);
        } catch (error) {
          throw contain(error, "could not be read");
        }
        return openLevel(plain, value, false);
      }
      if (unbox[name] !== undefined) return write(apply(unbox[name], value, []));
      throw refuse(whyNot(name));
    };

    // Moves on to the next member of the innermost level. Returns false where it is closed.
    const step = () => {
      const at = level;
      for (;;) {
        if (at.next === at.length) {
          level = at.parent;
          depth -= 1;
          setDelete(open, at.identity);
          out += at.keys === null ? "]" : "}";
          return;
        }
        const index = at.next;
        at.next += 1;
        let value;
        if (at.keys === null) {
          if (index > 0) out += ",";
          try {
            value = at.object[index];
            if (value === undefined && !hasOwn(at.object, index)) {
              throw refuse("is a hole in the array: fill it, or use null");
            }
          } catch (error) {
            if (error !== null && typeof error === "object" && isRefusal(error)) throw error;
            throw contain(error, "could not be read");
          }
          if (value === undefined) {
            if (strict) throw refuse("is undefined: use null");
            out += "null";
          } else {
            write(replace(value, `${index}`));
          }
          return;
        }
        const key = at.keys[index];
        try {
          value = at.object[key];
        } catch (error) {
          throw contain(error, "could not be read");
        }
        value = replace(value, key);
        if (value === undefined) {
          if (strict) throw refuse("is undefined: leave the property out");
          continue;
        }
        if (!at.empty) out += ",";
        at.empty = false;
        if (!isWellFormed(key)) throw refuse("is a key with an unpaired surrogate");
        out += `${stringify(key)}:`;
        write(value);
        return;
      }
    };

    const first = replace(root, "0");
    if (first === undefined) return undefined;
    write(first);
    const tooLong = () => soFar + out.length > maxBytes;
    while (level !== null) {
      if (tooLong()) break;
      step();
    }
    if (tooLong() || soFar + bytes(out) > maxBytes) {
      throw { __proto__: null, path: "", reason: maxBytes, tooLong: true };
    }
    return out;
  };

  const refusalKeys = "path,reason,tooLong";
  const isRefusal = (error) => {
    if (getPrototypeOf(error) !== null || host.isProxy(error)) return false;
    const keys = ownKeys(error);
    return keys.length === 3 && `${keys[0]},${keys[1]},${keys[2]}` === refusalKeys;
  };

  // An integer beyond 2^53 has all its digits, so that no reader takes it for another one.
  const numberText = (value) =>
    (value >= 9_007_199_254_740_992 || value <= -9_007_199_254_740_992) && value < 1e21 && value > -1e21
      ? `${toBigInt(value)}`
      : `${value}`;

  const errorAsObject = (error) => {
    const plain = {};
    const put = (key, value) =>
      defineProperty(plain, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
    const { name, message } = error;
    put("name", typeof name === "string" ? name : "Error");
    put("message", typeof message === "string" ? message : "Error");
    for (let i = 0; i < 2; i++) {
      const key = i === 0 ? "cause" : "errors";
      const value = getOwnPropertyDescriptor(error, key)?.value;
      if (value !== undefined) put(key, value);
    }
    const keys = enumerableKeys(error);
    for (let i = 0; i < keys.length; i++) put(keys[i], error[keys[i]]);
    return plain;
  };

  const encodeArguments = (values) => {
    let count = values.length;
    while (count > 0 && values[count - 1] === undefined) count -= 1;
    let out = "[";
    for (let i = 0; i < count; i++) {
      if (i > 0) out += ",";
      const text = encodeOne(values[i], i, limits.maxFrame, out.length);
      if (text === undefined) {
        if (limits.strict) throw refusal(i > 0 ? `arguments[${i}]` : "", "is undefined");
        out += "null";
      } else {
        out += text;
      }
    }
    return `${out}]`;
  };

  const describeRefusal = ({ path, reason, tooLong }, what) => {
    if (tooLong) return `${what} is more than ${reason} bytes of JSON`;
    return path === "" ? `${what} ${reason}` : `${what} has no JSON form: \`${path}\` ${reason}`;
  };

  // ---- values for people ---------------------------------------------------------------------------------------------

  const MAX_DEPTH = 4, MAX_ITEMS = 100, MAX_STRING = 10_000, MAX_TEXT = 100_000, LINE = 76;

  const quoted = (text) => {
    let more = 0;
    if (text.length > MAX_STRING || bytes(text) > MAX_STRING) {
      let used = 0;
      let at = 0;
      while (at < text.length) {
        const code = codeAt(text, at);
        const pair = code >= 0xd800 && code < 0xdc00 && at + 1 < text.length;
        used += pair ? 4 : code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
        if (used > MAX_STRING) break;
        at += pair ? 2 : 1;
      }
      for (let i = at; i < text.length; i++) {
        const code = codeAt(text, i);
        if (code < 0xdc00 || code > 0xdfff) more += 1;
      }
      text = slice(text, 0, at);
    }
    const quote =
      indexOf(text, "'") < 0 ? "'" : indexOf(text, '"') < 0 ? '"' : indexOf(text, "`") < 0 ? "`" : "'";
    let out = quote;
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (c === "\n") out += "\\n";
      else if (c === "\r") out += "\\r";
      else if (c === "\t") out += "\\t";
      else if (c === "\\") out += "\\\\";
      else if (c === quote) out += `\\${c}`;
      else if (c < " " || c === "\x7f") {
        const code = codeAt(c, 0);
        out += `\\x${"0123456789ABCDEF"[code >> 4]}${"0123456789ABCDEF"[code & 15]}`;
      } else out += c;
    }
    out += quote;
    return more > 0 ? `${out}... ${more} more character${plural(more)}` : out;
  };

  const constructorName = (value) => {
    let prototype = getPrototypeOf(value);
    for (let i = 0; i < 100; i++) {
      if (prototype === null || host.isProxy(prototype)) break;
      const constructor = getOwnPropertyDescriptor(prototype, "constructor")?.value;
      if (typeof constructor === "function" && !host.isProxy(constructor)) {
        const name = getOwnPropertyDescriptor(constructor, "name")?.value;
        if (typeof name === "string") return name;
      }
      prototype = getPrototypeOf(prototype);
    }
    return undefined;
  };

  const functionLabel = (value) => {
    const name = getOwnPropertyDescriptor(value, "name")?.value;
    const kind = host.functionKind(value);
    return typeof name === "string" && name !== "" ? `[${kind}: ${name}]` : `[${kind} (anonymous)]`;
  };

  const accessor = (descriptor) =>
    descriptor.get !== undefined && descriptor.set !== undefined
      ? "[Getter/Setter]"
      : descriptor.set !== undefined ? "[Setter]" : "[Getter]";
  const isData = (descriptor) => hasOwn(descriptor, "value");

  const label = (text) => ({ __proto__: null, prefix: text, open: "", close: "", entries: list(), flows: false });
  const braces = (prefix, entries) => ({ __proto__: null, prefix, open: "{", close: "}", entries, flows: false });

  const joinParts = ({ prefix, open, close, entries, flows }, depth) => {
    if (open === "") return prefix;
    if (entries.length === 0) return `${prefix}${open}${close}`;
    let width = bytes(prefix) + 2;
    let lines = false;
    for (let i = 0; i < entries.length; i++) {
      width += bytes(entries[i]) + 2;
      if (indexOf(entries[i], "\n") >= 0) lines = true;
    }
    if (width + 2 * depth <= LINE && !lines) {
      let text = `${prefix}${open} `;
      for (let i = 0; i < entries.length; i++) text += i === 0 ? entries[i] : `, ${entries[i]}`;
      return `${text} ${close}`;
    }
    let text = `${prefix}${open}\n`;
    let column = 0;
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i];
      const length = bytes(entry) + 2;
      const comma = i === entries.length - 1 ? "" : ",";
      if (column > 0 && flows && column + length <= LINE) {
        text += ` ${entry}${comma}`;
      } else {
        if (column > 0) {
          text += "\n";
          column = 0;
        }
        text += `  ${replaceAll(entry, "\n", "\n  ")}${comma}`;
      }
      column += length;
    }
    return `${text}\n${close}`;
  };

  const inspect = (root, maxDepth) => {
    // Objects around the current one, and those that contain themselves, in the order in which that was noticed.
    const open = list();
    const circular = list();
    let left = MAX_TEXT;

    const show = (value, depth) => {
      let text;
      switch (typeof value) {
        case "string":
          text = quoted(value);
          break;
        case "number":
          text = value === 0 && 1 / value < 0 ? "-0" : `${value}`;
          break;
        case "bigint":
          text = `${value}n`;
          break;
        case "symbol":
          text = symbolToString(value);
          break;
        case "object":
        case "function":
          text = value === null ? "null" : showObject(value, depth);
          break;
        default:
          text = `${value}`;
      }
      left = max(0, left - text.length);
      return text;
    };

    const showObject = (value, depth) => {
      for (let i = 0; i < 100; i++) {
        const target = host.proxyTarget(value);
        if (target === undefined) break;
        value = target;
      }
      if (value === null || host.isProxy(value)) return "[Proxy]";
      for (let i = 0; i < open.length; i++) {
        if (open[i] !== value) continue;
        for (let j = 0; j < circular.length; j++) if (circular[j] === value) return `[Circular *${j + 1}]`;
        push(circular, value);
        return `[Circular *${circular.length}]`;
      }
      push(open, value);
      let text;
      try {
        text = joinParts(takeApart(value, depth), depth);
      } finally {
        open.length -= 1;
      }
      for (let j = 0; j < circular.length; j++) if (circular[j] === value) return `<ref *${j + 1}> ${text}`;
      return text;
    };

    const takeApart = (value, depth) => {
      if (typeof value === "function") return withFields(value, functionLabel(value), depth, "extra");
      const kind = classOf(value);
      const name = constructorName(value);
      if (kind === "Error") {
        const text = brief(value);
        return withFields(value, depth > 0 ? `[${text}]` : text, depth, "error");
      }
      if (unbox[kind] !== undefined) return label(`[${kind}: ${show(apply(unbox[kind], value, []), depth)}]`);
      if (kind === "Date") {
        try {
          return label(dateToIso(value));
        } catch {
          return label("Invalid Date");
        }
      }
      if (kind === "RegExp") return withFields(value, regexpToString(value), depth, "extra");
      const shown = name ?? kind;
      if (depth > maxDepth || left === 0) return label(`[${kind === "Array" ? "Array" : shown}]`);
      if (kind === "Array") {
        const prefix =
          name === "Array" ? "" : name === undefined ? `[Array(${value.length}): null prototype] ` : `${name}(${value.length}) `;
        return items(value, prefix, depth, value.length);
      }
      if (kind === "Map" || kind === "Set") return collection(value, kind, shown, depth);
      if (kind === "Promise") {
        const state = host.promiseState(value);
        const entries = list();
        if (state === 0) push(entries, "<pending>");
        else {
          const inner = show(host.promiseResult(value), depth + 1);
          push(entries, state === 1 ? inner : `<rejected> ${inner}`);
        }
        return braces("Promise ", entries);
      }
      if (kind === "ArrayBuffer" || kind === "DataView") {
        const entries = list();
        push(entries, `byteLength: ${apply(kind === "DataView" ? viewLength : bufferLength, value, [])}`);
        return braces(`${kind} `, entries);
      }
      if (endsWith(kind, "Array")) {
        const length = apply(typedLength, value, []);
        return items(value, `${shown}(${length}) `, depth, length);
      }
      const prefix =
        name === "Object"
          ? kind === "Object" ? "" : `Object [${kind}] `
          : name === undefined ? "[Object: null prototype] " : `${name} `;
      return braces(prefix, fields(value, depth, "all"));
    };

    const items = (value, prefix, depth, length) => {
      const entries = list();
      let flows = true;
      let index = 0;
      while (index < length && entries.length < MAX_ITEMS && left > 0) {
        const descriptor = getOwnPropertyDescriptor(value, index);
        if (descriptor === undefined) {
          let holes = 1;
          while (index + holes < length && holes < 100_000 && !hasOwn(value, index + holes)) holes += 1;
          if (holes === 100_000) holes = length - index;
          push(entries, `<${holes} empty item${plural(holes)}>`);
          index += holes;
          continue;
        }
        if (isData(descriptor)) {
          const item = descriptor.value;
          flows &&= item === null || (typeof item !== "object" && typeof item !== "function" && typeof item !== "string");
          push(entries, show(item, depth + 1));
        } else {
          push(entries, accessor(descriptor));
        }
        index += 1;
      }
      if (index < length) push(entries, `... ${length - index} more item${plural(length - index)}`);
      return { __proto__: null, prefix, open: "[", close: "]", entries, flows };
    };

    const collection = (value, kind, name, depth) => {
      const isMap = kind === "Map";
      const collected = helpers.collect(value, isMap);
      const size = collected[0];
      const count = (collected.length - 1) / (isMap ? 2 : 1);
      const entries = list();
      for (let i = 0; i < count && left > 0; i++) {
        push(
          entries,
          isMap
            ? `${show(collected[1 + 2 * i], depth + 1)} => ${show(collected[2 + 2 * i], depth + 1)}`
            : show(collected[1 + i], depth + 1),
        );
      }
      if (size > entries.length) {
        const more = size - entries.length;
        push(entries, `... ${more} more item${plural(more)}`);
      }
      return braces(`${name}(${size}) `, entries);
    };

    const withFields = (value, text, depth, which) => {
      if (depth > maxDepth) return label(text);
      const entries = fields(value, depth, which);
      return entries.length === 0 ? label(text) : braces(`${text} `, entries);
    };

    const fields = (value, depth, which) => {
      const all = ownKeys(value);
      const keys = list();
      for (let i = 0; i < all.length; i++) {
        if (getOwnPropertyDescriptor(value, all[i])?.enumerable) push(keys, all[i]);
      }
      const entries = list();
      for (let i = 0; i < keys.length; i++) {
        if (entries.length >= MAX_ITEMS || left === 0) {
          push(entries, `... ${keys.length - i} more item${plural(keys.length - i)}`);
          break;
        }
        const key = keys[i];
        const isSymbol = typeof key === "symbol";
        if (which === "error" && (key === "name" || key === "message" || key === "stack")) continue;
        const name = isSymbol ? `[${symbolToString(key)}]` : isIdentifier(key) ? key : quoted(key);
        const descriptor = getOwnPropertyDescriptor(value, key);
        if (descriptor === undefined) continue;
        push(entries, `${name}: ${isData(descriptor) ? show(descriptor.value, depth + 1) : accessor(descriptor)}`);
      }
      if (which === "error") {
        const cause = getOwnPropertyDescriptor(value, "cause");
        if (cause !== undefined && isData(cause)) push(entries, `[cause]: ${show(cause.value, depth + 1)}`);
      }
      return entries;
    };

    return show(root, 0);
  };

  const typedLength = getOwnPropertyDescriptor(getPrototypeOf(Bytes.prototype), "length").get;
  const viewLength = getOwnPropertyDescriptor(DataView.prototype, "byteLength").get;
  const bufferLength = getOwnPropertyDescriptor(ArrayBuffer.prototype, "byteLength").get;

  // One short line, whatever happens.
  const inspectBriefly = (value) => {
    try {
      const text = inspect(value, 2);
      return text.length > 1000 ? `${slice(text, 0, 1000)}…` : text;
    } catch {
      return "a value that cannot be shown";
    }
  };

  // ---- errors --------------------------------------------------------------------------------------------------------

  const MAX_MESSAGE = 1024 * 1024, MAX_BRIEF = 2000, MAX_FRAMES = 32, MAX_CAUSES = 4, MAX_AGGREGATED = 5;
  const NO_NETWORK = "programs have no network of their own; call a tool on `tools`";
  const NO_FILES = "programs have no file or system access of their own; call a tool on `tools`";
  const NO_EXPORTS = "programs have no modules; return the value instead of exporting it";
  const TOOLS = "tools are functions of `tools`: await tools.name({...})";
  const RETURN = "return the value";
  const RETURN_OR_LOG = "return the value, or use console.log";
  const MISSING = {
    __proto__: null,
    fetch: NO_NETWORK,
    XMLHttpRequest: NO_NETWORK,
    WebSocket: NO_NETWORK,
    axios: NO_NETWORK,
    Request: NO_NETWORK,
    Response: NO_NETWORK,
    Headers: NO_NETWORK,
    process: "programs have no process and no environment; what is not an argument comes from a tool on `tools`",
    require: "programs have no modules; call a tool on `tools`, or use the built-in objects",
    module: NO_EXPORTS,
    exports: NO_EXPORTS,
    __dirname: NO_FILES,
    __filename: NO_FILES,
    fs: NO_FILES,
    path: NO_FILES,
    os: NO_FILES,
    child_process: NO_FILES,
    Deno: NO_FILES,
    Bun: NO_FILES,
    Buffer: "use TextEncoder, TextDecoder, btoa and atob",
    crypto: "there is no crypto object; a tool on `tools` may offer it",
    setImmediate: "use setTimeout(callback, 0)",
    window: "there is no page; use globalThis for globals",
    document: "there is no page; a tool on `tools` may read one",
    localStorage: "nothing is kept between programs here; a tool on `tools` may store it",
    alert: "use console.log",
    print: "use console.log",
    prompt: "programs cannot ask; return what is missing",
    codemode: TOOLS,
    mcp: TOOLS,
    functions: TOOLS,
    final_answer: RETURN,
    finalAnswer: RETURN,
    submit: RETURN,
    output: RETURN_OR_LOG,
    text: RETURN_OR_LOG,
    yield_control: RETURN,
  };

  const textProperty = (object, name) => {
    try {
      const value = object[name];
      return typeof value === "string" ? value : undefined;
    } catch {
      return undefined;
    }
  };
  const ownValue = (object, key) => {
    try {
      return getOwnPropertyDescriptor(object, key)?.value;
    } catch {
      return undefined;
    }
  };

  // `TypeError: x is not a function`.
  const headline = (error) => {
    const name = textProperty(error, "name") ?? "Error";
    const message = textProperty(error, "message") ?? "";
    return name === "" ? message : message === "" ? name : `${name}: ${message}`;
  };
  const brief = (thrown) => {
    const text =
      typeof thrown === "string" ? thrown : host.isNativeError(thrown) ? headline(thrown) : inspectBriefly(thrown);
    return text.length > MAX_BRIEF ? `${slice(text, 0, MAX_BRIEF)}…` : text;
  };

  const additions = (thrown) => {
    let text = "";
    const errors = ownValue(thrown, "errors");
    if (isArray(errors) && !host.isProxy(errors)) {
      for (let i = 0; i < errors.length && i < MAX_AGGREGATED; i++) text += `\n  [${i}] ${brief(ownValue(errors, i))}`;
      if (errors.length > MAX_AGGREGATED) text += `\n  … ${errors.length - MAX_AGGREGATED} more`;
    }
    let cause = ownValue(thrown, "cause");
    const seen = new SetClass();
    setAdd(seen, thrown);
    for (let i = 0; i < MAX_CAUSES && cause !== undefined; i++) {
      if (setHas(seen, cause) && typeof cause === "object") break;
      setAdd(seen, cause);
      text += `\n  caused by ${brief(cause)}`;
      cause = cause !== null && typeof cause === "object" ? ownValue(cause, "cause") : undefined;
    }
    return text;
  };

  const stackOf = (error) => {
    try {
      return stackGetter === undefined ? ownValue(error, "stack") : apply(stackGetter, error, []);
    } catch {
      return undefined;
    }
  };
  const FRAME = /^    at (?:(?:async )?(.*) \()?program\.ts:([0-9]{1,9}):([0-9]{1,9})\)?$/;
  const framesOf = (error) => {
    const frames = list();
    const stack = stackOf(error);
    if (typeof stack !== "string") return frames;
    const lines = split(stack, "\n");
    const last = split(source, "\n").length;
    for (let i = 0; i < lines.length && frames.length < MAX_FRAMES; i++) {
      const found = matches(FRAME, lines[i]);
      if (found === null) continue;
      const line = toNumber(found[2]);
      if (line < 1 || line > last) continue;
      push(frames, { __proto__: null, name: found[1] ?? "", line, column: max(1, toNumber(found[3])) });
    }
    // An error of a class of the program's own was made by its constructors, but it is thrown where they were called.
    const makers = constructorNames(error);
    let skip = 0;
    while (skip < frames.length && setHas(makers, frames[skip].name)) skip += 1;
    if (skip === 0 || skip === frames.length) return frames;
    const rest = list();
    for (let i = skip; i < frames.length; i++) push(rest, frames[i]);
    return rest;
  };
  const constructorNames = (error) => {
    const names = new SetClass();
    let prototype = getPrototypeOf(error);
    for (let i = 0; i < 16 && prototype !== null && !host.isProxy(prototype); i++) {
      const made = ownValue(prototype, "constructor");
      if (typeof made === "function" && !host.isProxy(made)) {
        const name = ownValue(made, "name");
        if (typeof name === "string" && name !== "") {
          setAdd(names, name);
          setAdd(names, `new ${name}`);
        }
      }
      prototype = getPrototypeOf(prototype);
    }
    return names;
  };

  const failureText = (kind, name, message, frames, position) => {
    let text = `{"kind":"${kind}","message":${stringify(message)}`;
    if (name !== undefined) text += `,"name":${stringify(name)}`;
    const at = position ?? (frames.length > 0 ? frames[0] : undefined);
    if (at !== undefined) text += `,"position":{"line":${at.line},"column":${at.column}}`;
    if (frames.length > 0) {
      text += ',"stack":[';
      for (let i = 0; i < frames.length; i++) {
        const { name: called, line, column } = frames[i];
        text += `${i > 0 ? "," : ""}{"function":${stringify(wellFormed(called))},"position":{"line":${line},"column":${column}}}`;
      }
      text += "]";
    }
    return `${text}}`;
  };

  // An unpaired surrogate is written as its escape, since UTF-8 has none.
  const wellFormed = (text) => {
    if (isWellFormed(text)) return text;
    let out = "";
    for (let i = 0; i < text.length; i++) {
      const code = codeAt(text, i);
      const next = i + 1 < text.length ? codeAt(text, i + 1) : 0;
      if (code >= 0xd800 && code <= 0xdbff && next >= 0xdc00 && next <= 0xdfff) {
        out += text[i] + text[i + 1];
        i += 1;
      } else if (code >= 0xd800 && code <= 0xdfff) {
        out += "\\u";
        for (let shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[(code >> shift) & 15];
      } else {
        out += text[i];
      }
    }
    return out;
  };
  const describe = (thrown) => {
    let name;
    let message;
    let frames = list();
    if (typeof thrown === "string") {
      message = thrown;
    } else if (host.isNativeError(thrown)) {
      frames = framesOf(thrown);
      const given = textProperty(thrown, "name");
      name = given === "" ? undefined : given;
      message = textProperty(thrown, "message") ?? "";
      if (message === "") message = name ?? "Error";
      if (name === "ReferenceError" && endsWith(message, " is not defined")) {
        const hint = MISSING[slice(message, 0, message.length - 15)];
        if (hint !== undefined) message += `: ${hint}`;
      }
      message += additions(thrown);
    } else {
      message = `the program threw ${inspectBriefly(thrown)}`;
    }
    if (message === "") message = "the program threw an empty string";
    message = wellFormed(cut(message, MAX_MESSAGE));
    return failureText("exception", name === undefined ? undefined : wellFormed(cut(name, 256)), message, frames);
  };

  // ---- console -------------------------------------------------------------------------------------------------------

  let indent = 0;
  const print = (text) => {
    if (indent > 0) {
      const edge = repeat(" ", indent);
      text = edge + replaceAll(text, "\n", `\n${edge}`);
    }
    // Of an entry that cannot fit anyway, as much as shows that.
    host.log(wellFormed(cut(text, limits.maxOutput + 8)));
  };

  const placeholder = (directive, value) => {
    if (directive === "c") return "";
    if (directive === "s" && typeof value === "string") return value;
    if (directive === "d" || directive === "i" || directive === "f") {
      const type = typeof value;
      if (type === "bigint" || type === "symbol" || type === "function" || (type === "object" && value !== null)) return "NaN";
      const number = toNumber(value);
      return `${directive === "i" ? trunc(number) : number}`;
    }
    if (directive === "j") {
      try {
        const text = encodeOne(value, 0, limits.maxFrame, 0);
        if (text !== undefined) return text;
      } catch {
        // Shown in the other way.
      }
    }
    return inspect(value, directive === "s" ? 0 : MAX_DEPTH);
  };

  const format = (values) => {
    let out = "";
    let next = 0;
    if (values.length > 1 && typeof values[0] === "string") {
      next = 1;
      const parts = split(values[0], "%");
      out = parts[0];
      let literal = false;
      for (let i = 1; i < parts.length; i++) {
        const part = parts[i];
        if (literal) {
          literal = false;
          out += part;
        } else if (part === "") {
          out += "%";
          literal = true;
        } else if (indexOf("sdifjoOc", part[0]) >= 0 && next < values.length) {
          out += placeholder(part[0], values[next]) + slice(part, 1);
          next += 1;
        } else {
          out += `%${part}`;
        }
      }
      if (next < values.length) out += " ";
    }
    for (let i = next; i < values.length; i++) {
      if (i > next) out += " ";
      out += typeof values[i] === "string" ? values[i] : inspect(values[i], MAX_DEPTH);
    }
    return out;
  };

  // ---- globals -------------------------------------------------------------------------------------------------------

  const fixed = (object, name, value, enumerable) =>
    defineProperty(object, name, { __proto__: null, value, writable: false, enumerable, configurable: false });
  const expose = (name, value) =>
    defineProperty(global, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });

  const MAX_DELAY = 2_147_483_647;
  const setTimer = (callback, delay, values, repeats) => {
    if (typeof callback !== "function") throw new TypeErrorClass("a timer needs a function to call");
    delay = toNumber(delay);
    const id = host.setTimer(callback, values, delay >= 1 && delay <= MAX_DELAY ? trunc(delay) : 1, repeats);
    if (id === 0) throw new RangeErrorClass("too many timers are waiting");
    return id;
  };
  const clearTimer = (id) => {
    id = toNumber(id);
    if (id >= 1 && id <= 4_294_967_295) host.clearTimer(trunc(id));
  };
  const timerGlobals = {
    setTimeout(callback, delay, ...values) {
      return setTimer(callback, delay, values, false);
    },
    setInterval(callback, delay, ...values) {
      return setTimer(callback, delay, values, true);
    },
    clearTimeout(id) {
      clearTimer(id);
    },
    clearInterval(id) {
      clearTimer(id);
    },
  };
  for (const name of ownKeys(timerGlobals)) expose(name, timerGlobals[name]);

  const domCodes = {
    __proto__: null,
    IndexSizeError: 1, HierarchyRequestError: 3, WrongDocumentError: 4, InvalidCharacterError: 5, NoModificationAllowedError: 7,
    NotFoundError: 8, NotSupportedError: 9, InUseAttributeError: 10, InvalidStateError: 11, SyntaxError: 12,
    InvalidModificationError: 13, NamespaceError: 14, InvalidAccessError: 15, TypeMismatchError: 17, SecurityError: 18,
    NetworkError: 19, AbortError: 20, URLMismatchError: 21, QuotaExceededError: 22, TimeoutError: 23, InvalidNodeTypeError: 24,
    DataCloneError: 25,
  };
  class DOMException extends ErrorClass {
    constructor(message = "", name = "Error") {
      super(`${message}`);
      defineProperty(this, "name", {
        __proto__: null, value: `${name}`, writable: true, enumerable: false, configurable: true,
      });
      if (!hasOwn(this, "message")) {
        defineProperty(this, "message", { __proto__: null, value: "", writable: true, enumerable: false, configurable: true });
      }
    }
    get code() {
      return domCodes[this.name] ?? 0;
    }
  }
  defineProperty(DOMException.prototype, Symbol.toStringTag, { __proto__: null, value: "DOMException", configurable: true });
  expose("DOMException", DOMException);
  expose("btoa", function btoa(text) {
    const encoded = host.toBase64(`${text}`);
    if (encoded === undefined) {
      throw new DOMException("the text has characters beyond U+00FF: encode it with TextEncoder first", "InvalidCharacterError");
    }
    return encoded;
  });
  expose("atob", function atob(text) {
    const decoded = host.fromBase64(`${text}`);
    if (decoded === undefined) throw new DOMException("the text is not correctly encoded", "InvalidCharacterError");
    return decoded;
  });

  const binary = (value) => {
    if (value === null || typeof value !== "object" || host.classOf(value) !== "Uint8Array") {
      throw new TypeErrorClass("expected an ArrayBuffer or a typed array");
    }
    return value;
  };
  const listOf = (text) => (text === undefined ? undefined : parse(text));
  const natives = {
    log: (...values) => print(format(values)),
    print: (text) => print(`${text}`),
    format: (...values) => format(values),
    inspect: (value, depth) =>
      inspect(value, typeof depth === "number" && isInteger(depth) ? min(max(depth, 0), 10) : depth === undefined ? MAX_DEPTH : 10),
    indent: (deeper) => {
      indent = deeper ? min(indent + 2, 100) : max(indent - 2, 0);
    },
    now: () => host.now(),
    classOf: (value) => {
      const name = classOf(value);
      return name === "Error" && value instanceof DOMException ? "DOMException" : name;
    },
    encodeUtf8: (text) => {
      const target = new Bytes(bytes(text));
      host.encodeUtf8(text, target);
      return target;
    },
    decodeUtf8: (input, fatal, stream) => {
      const answer = host.decodeUtf8(binary(input), fatal, stream);
      if (answer === undefined) throw new TypeErrorClass("the encoded data is not valid UTF-8");
      return [slice(answer, 1), toNumber(answer[0])];
    },
    decodeUtf16: (input, fatal) => {
      const answer = host.decodeUtf16(binary(input), fatal);
      if (answer === undefined) throw new TypeErrorClass("the encoded data is not valid UTF-16");
      return answer;
    },
    urlParse: (text, base) => listOf(host.urlParse(text, base)),
    urlSet: (href, property, value) => listOf(host.urlSet(href, property, value)),
    formParse: (text) => parse(host.formParse(text)),
    formSerialize: (flat) => host.formSerialize(stringify(flat)),
  };
  // Natives have the names by which programs see them.
  for (const name of ownKeys(natives)) defineProperty(natives[name], "name", { __proto__: null, value: name });

  for (const name of ["WebAssembly", "SharedArrayBuffer", "Atomics", "console"]) delete global[name];
  // The prelude takes the getter of the other engine from here.
  defineProperty(ErrorClass.prototype, "stack", { __proto__: null, get() {}, configurable: true });
  const helpers = prelude(natives, global);
  delete ErrorClass.prototype.stack;
  opaque = setPrototypeOf(helpers.opaque, null);

  // ---- namespaces ----------------------------------------------------------------------------------------------------

  const MAX_PATH = 1024;

  // Turns a bare error into one of the namespace's class.
  const finishError = (error, namespace, name, message) => {
    defineProperty(error, "message", { __proto__: null, value: message, writable: true, enumerable: false, configurable: true });
    if (namespace.errorPrototype !== null) {
      setPrototypeOf(error, namespace.errorPrototype);
      defineProperty(error, namespace.errorProperty, {
        __proto__: null, value: name, writable: true, enumerable: true, configurable: true,
      });
    }
    return error;
  };

  const call = (namespace, name, known, blocking, values) => {
    // Made here, so that its stack shows the call.
    const error = new ErrorClass();
    let text;
    try {
      text = encodeArguments(values);
    } catch (refused) {
      if (refused === null || typeof refused !== "object" || !isRefusal(refused)) throw refused;
      finishError(error, namespace, name, describeRefusal(refused, "the argument"));
      if (blocking) throw error;
      return rejectPromise(error);
    }
    if (blocking) {
      const answer = host.callSync(namespace.number, name, text);
      const content = slice(answer, 1);
      if (answer[0] === "+") return parse(content);
      throw finishError(error, namespace, name, content);
    }
    return new PromiseClass((resolve, reject) => {
      host.call(namespace.number, known, name, text, resolve, reject, error);
    });
  };

  // Stands in for a member that does not exist: calling it asks the host for words about the name.
  const unknown = (namespace, path) => {
    path = cut(path, MAX_PATH);
    const refuse = () => {
      throw finishError(new ErrorClass(), namespace, path, `\`${namespace.global}.${path}\` does not exist`);
    };
    return new ProxyClass(() => {}, {
      __proto__: null,
      get(_, key) {
        if (typeof key === "symbol") return key === toPrimitive ? refuse : functionPrototype[key];
        switch (key) {
          case "toString":
          case "valueOf":
          case "toLocaleString":
            return refuse;
          case "then":
          case "toJSON":
            return undefined;
          case "call":
          case "apply":
          case "bind":
          case "constructor":
            return functionPrototype[key];
          case "__proto__":
            return functionPrototype;
          default:
            return unknown(namespace, `${path}.${key}`);
        }
      },
      set: () => false,
      apply: (_, __, values) => call(namespace, path, false, false, values),
    });
  };

  const makeMember = (namespace, name, blocking) => {
    const member =
      name === "then"
        ? (...values) => {
            // `await tools` asks a member of this name for two callbacks. That is not a call of the tool.
            if (values.length === 2 && typeof values[0] === "function" && typeof values[1] === "function") {
              const message = "this namespace has a function named `then`, so it cannot be awaited";
              const error = new ErrorClass(message);
              return apply(values[1], undefined, [error]);
            }
            return call(namespace, name, true, blocking, values);
          }
        : (...values) => call(namespace, name, true, blocking, values);
    defineProperty(member, "name", { __proto__: null, value: name, configurable: true });
    return member;
  };

  const install = (description, number) => {
    const namespace = { __proto__: null, number, global: description.global, errorPrototype: null, errorProperty: "" };
    if (description.error_class !== null) {
      const [name, property] = description.error_class;
      const made = helpers.makeErrorClass(name, property);
      namespace.errorPrototype = made.prototype;
      namespace.errorProperty = property;
      fixed(global, name, made, false);
    }
    push(namespaces, namespace);
    const target = {};
    const { shown, shown_sync, hidden, hidden_sync } = description.members;
    for (const name of shown) fixed(target, name, makeMember(namespace, name, false), true);
    for (const name of shown_sync) fixed(target, name, makeMember(namespace, name, true), true);
    for (const name of hidden) fixed(target, name, makeMember(namespace, name, false), false);
    for (const name of hidden_sync) fixed(target, name, makeMember(namespace, name, true), false);
    preventExtensions(target);
    const rejects = description.reject_unknown;
    const object = new ProxyClass(target, {
      __proto__: null,
      get(_, key) {
        if (hasOwn(target, key)) return target[key];
        if (key === "__proto__") return objectPrototype;
        if (has(objectPrototype, key)) return objectPrototype[key];
        if (!rejects || typeof key === "symbol" || key === "then" || key === "toJSON") return undefined;
        return unknown(namespace, key);
      },
    });
    weakAdd(namespaceObjects, object);
    fixed(global, description.global, object, false);
    for (const alias of description.aliases) fixed(global, alias, object, false);
  };

  // ---- what the other side calls -------------------------------------------------------------------------------------

  const MAX_UNHANDLED = 8;
  const finishWith = (tag, text) => {
    host.reportUnhandled((reason) => print(`Unhandled rejection: ${brief(reason)}`), MAX_UNHANDLED);
    host.done(tag, text);
  };

  return {
    __proto__: null,
    headline,
    refuseImport: (specifier) =>
      rejectPromise(
        new TypeErrorClass(
          `cannot import ${stringify(`${specifier}`)}: programs have no modules; call a tool on \`tools\`, or use the built-in ` +
            "objects",
        ),
      ),
    // Takes the first frame. Returns the program.
    prepare: (text) => {
      const start = parse(text);
      limits = {
        __proto__: null,
        strict: start.json === "strict",
        maxFrame: start.max_frame_bytes,
        maxOutput: start.max_output_bytes,
        maxDepth: start.max_json_depth,
      };
      source = start.program;
      let number = 0;
      for (const description of start.namespaces) install(description, number++);
      return source;
    },
    failToCompile: (message, line, column) => {
      const lines = split(source, "\n");
      let position;
      if (line >= 1 && line <= lines.length) position = { __proto__: null, line, column: max(1, column) };
      else if (line > lines.length) {
        position = { __proto__: null, line: lines.length, column: lines[lines.length - 1].length + 1 };
      }
      finishWith("failed", failureText("exception", "SyntaxError", wellFormed(message), list(), position));
    },
    launch: (program) => {
      if (typeof program !== "function") {
        return rejectPromise(new SyntaxErrorClass("the program is not the body of one function"));
      }
      try {
        const promise = apply(program, undefined, []);
        // A program that ends its own wrapper can hand over anything.
        return host.isProxy(promise) || host.classOf(promise) !== "Promise" ? rejectPromise(promise) : promise;
      } catch (error) {
        return rejectPromise(error);
      }
    },
    settle: (resolve, reject, error, number, name, ok, text) => {
      try {
        if (!ok) {
          reject(finishError(error, namespaces[number], name, text));
          return;
        }
        let value;
        try {
          value = parse(text);
        } catch (wrong) {
          reject(wrong);
          return;
        }
        resolve(value);
      } catch (thrown) {
        fail(thrown);
      }
    },
    fire: (callback, values) => {
      try {
        apply(callback, undefined, values);
      } catch (error) {
        fail(error);
      }
    },
    hasFailed: () => failed,
    finishUncaught: () => finishWith("failed", describe(uncaught)),
    finish: (fulfilled, result) => {
      if (!fulfilled) return finishWith("failed", describe(result));
      const most = min(limits.maxFrame, limits.maxOutput);
      let text;
      try {
        text = encodeOne(result, 0, most, 0);
      } catch (refused) {
        if (refused === null || typeof refused !== "object" || !isRefusal(refused)) return finishWith("failed", describe(refused));
        const kind = refused.tooLong && most === limits.maxOutput ? "output-limit" : "invalid-output";
        const message =
          kind === "output-limit" ? "the result is longer than the output limit" : describeRefusal(refused, "the result");
        return finishWith("failed", failureText(kind, undefined, wellFormed(message), list()));
      }
      return text === undefined ? finishWith("nothing", "") : finishWith("value", text);
    },
  };
})
