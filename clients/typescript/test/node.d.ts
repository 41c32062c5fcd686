// What the sources use of Node, so that TypeScript is all that checking them needs.
declare module "node:fs" {
  const fs: {
    constants: { O_RDONLY: number; O_WRONLY: number; O_APPEND: number };
    fstatSync(fd: number): { isFIFO(): boolean };
    openSync(path: string, flags: number): number;
    closeSync(fd: number): void;
  };
  export default fs;
}
declare module "node:net" {
  class Socket implements Stream {
    constructor(options: { fd: number; readable?: boolean; writable?: boolean });
    write(text: string, done?: (error?: Error | null) => void): boolean;
    on(name: string, listener: (...given: any[]) => void): this;
    destroy(): void;
  }
  const net: { Socket: typeof Socket };
  export default net;
}
declare module "node:tty" {
  export function isatty(fd: number): boolean;
}
declare module "node:util" {
  export function inspect(value: unknown): string;
}
declare module "node:crypto" {
  export function randomUUID(): string;
}
interface Stream {
  write(text: string, done?: (error?: Error | null) => void): boolean;
  on(name: string, listener: (...given: any[]) => void): this;
  destroy(): void;
}
declare const process: {
  stdin: Stream;
  stdout: Stream;
  stderr: Stream;
  exitCode: number | undefined;
  exit(): never;
};
declare class Buffer extends Uint8Array {
  static concat(parts: Uint8Array[]): Buffer;
  indexOf(byte: number): number;
  subarray(from?: number, to?: number): Buffer;
}
declare class URL {
  constructor(path: string, base?: string);
  href: string;
  origin: string;
  protocol: string;
  username: string;
  password: string;
  pathname: string;
  search: string;
  hash: string;
}
declare class URLSearchParams {
  append(name: string, value: string): void;
  size: number;
}
declare class AbortSignal {
  static timeout(milliseconds: number): AbortSignal;
  aborted: boolean;
}
declare class AbortController {
  signal: AbortSignal;
  abort(): void;
}
declare class TextDecoder {
  constructor(label: string, options: { fatal: boolean });
  decode(piece?: Uint8Array, options?: { stream: boolean }): string;
}
declare class Response {
  status: number;
  statusText: string;
  ok: boolean;
  headers: { get(name: string): string | null };
  body: { getReader(): { read(): Promise<{ done: boolean; value?: Uint8Array }> } } | null;
  text(): Promise<string>;
}
declare function fetch(
  url: string,
  options: {
    method: string;
    headers: Record<string, string>;
    body?: string;
    signal: AbortSignal;
    redirect: "manual";
  },
): Promise<Response>;
declare const performance: { now(): number };
declare function clearTimeout(timer: { unref(): void }): void;
interface ImportMeta {
  url: string;
}
declare function setTimeout(call: () => void, milliseconds: number): { unref(): void };
