interface Console {
  log(...values: any[]): void;
  info(...values: any[]): void;
  warn(...values: any[]): void;
  error(...values: any[]): void;
  debug(...values: any[]): void;
  trace(...values: any[]): void;
  dir(value?: any, options?: any): void;
  dirxml(...values: any[]): void;
  table(rows?: any, columns?: any): void;
  assert(condition?: any, ...values: any[]): void;
  count(label?: any): void;
  countReset(label?: any): void;
  time(label?: any): void;
  timeLog(label?: any, ...values: any[]): void;
  timeEnd(label?: any): void;
  group(...values: any[]): void;
  groupCollapsed(...values: any[]): void;
  groupEnd(): void;
}
declare var console: Console;

declare function setTimeout(callback: (...values: any[]) => any, ms?: any, ...values: any[]): any;
declare function setInterval(callback: (...values: any[]) => any, ms?: any, ...values: any[]): any;
declare function clearTimeout(timer?: any): void;
declare function clearInterval(timer?: any): void;
declare function queueMicrotask(callback: () => any): void;
declare function structuredClone<T = any>(value: T): T;
declare function atob(text: any): string;
declare function btoa(text: any): string;

interface Performance {
  now(): number;
  readonly timeOrigin: number;
}
declare var performance: Performance;

declare class URLSearchParams {
  constructor(init?: any);
  readonly size: number;
  append(name: any, value: any): void;
  delete(name: any, value?: any): void;
  get(name: any): string | null;
  getAll(name: any): string[];
  has(name: any, value?: any): boolean;
  set(name: any, value: any): void;
  sort(): void;
  forEach(callback: (value: string, name: string, parent: URLSearchParams) => void, self?: any): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  toString(): string;
}

declare class URL {
  constructor(url: any, base?: any);
  static canParse(url: any, base?: any): boolean;
  static parse(url: any, base?: any): URL | null;
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  hash: string;
  readonly searchParams: URLSearchParams;
  toString(): string;
  toJSON(): string;
}

declare class TextEncoder {
  readonly encoding: string;
  encode(text?: any): Uint8Array;
  encodeInto(text: any, target: Uint8Array): { read: number; written: number };
}

declare class TextDecoder {
  constructor(label?: any, options?: any);
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  decode(input?: any, options?: any): string;
}

declare class DOMException extends Error {
  constructor(message?: any, name?: any);
  readonly code: number;
}

declare class Event {
  constructor(type: any, options?: any);
  readonly type: string;
  readonly target: any;
  readonly currentTarget: any;
  readonly cancelable: boolean;
  readonly defaultPrevented: boolean;
  readonly timeStamp: number;
  preventDefault(): void;
  stopPropagation(): void;
  stopImmediatePropagation(): void;
}

declare class EventTarget {
  addEventListener(type: any, listener: any, options?: any): void;
  removeEventListener(type: any, listener: any, options?: any): void;
  dispatchEvent(event: any): boolean;
}

declare class AbortSignal extends EventTarget {
  static abort(reason?: any): AbortSignal;
  static timeout(ms: any): AbortSignal;
  static any(signals: Iterable<AbortSignal>): AbortSignal;
  readonly aborted: boolean;
  readonly reason: any;
  onabort: any;
  throwIfAborted(): void;
}

declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: any): void;
}
