/** Loads esbuild as WebAssembly, once for each thread: it needs no other process and no files. */
import { readFileSync } from 'node:fs';
import { createRequire as requireAt } from 'node:module';
import { compileFunction } from 'node:vm';
import type { BuildOptions, BuildResult } from 'esbuild';

export type Bundler = { build(options: BuildOptions): Promise<BuildResult> };
type Library = Bundler & { initialize(options: { wasmModule: unknown; worker: false }): Promise<void> };

/** Node's types have no values of it. */
const { Module } = (globalThis as unknown as { WebAssembly: { Module: new (bytes: Uint8Array) => unknown } })
  .WebAssembly;

let loading: Promise<Bundler> | null = null;

/** Takes half a second for the first page of a thread. */
export function loadBundler(): Promise<Bundler> {
  loading ??= load().catch((error: unknown) => {
    loading = null;
    throw error;
  });
  return loading;
}

/** After a fault of its own it may be in any state; the next page gets another. */
export function forgetBundler(): void {
  loading = null;
}

async function load(): Promise<Bundler> {
  const { resolve } = requireAt(import.meta.url);
  const module = { exports: {} };
  // Its build for browsers, which starts no process. There `self` is what is global.
  const text = readFileSync(resolve('esbuild-wasm/lib/browser.js'), 'utf8');
  compileFunction(text, ['module', 'self'])(module, globalThis);
  const library = module.exports as Library;
  const wasmModule = new Module(readFileSync(resolve('esbuild-wasm/esbuild.wasm')));
  await library.initialize({ wasmModule, worker: false });
  return library;
}
