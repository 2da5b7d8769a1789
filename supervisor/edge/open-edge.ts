/** Chooses the edge: uWebSockets.js where its native code loads, else node:http (architecture, "Libraries"). */
import type { Edge } from './edge.ts';
import type { EdgeOptions } from './exchange.ts';
import { createNodeEdge } from './node.ts';
import { createUwsEdge } from './uws.ts';
import { NoUws } from './uws-binding.ts';

export type EdgeKind = 'auto' | 'uws' | 'node';

/**
 * `notice` is the one line to log when `auto` had to fall back. Throws when `uws` was asked for by name and its native
 * module cannot be loaded.
 */
export function openEdge(kind: EdgeKind, options: EdgeOptions): { edge: Edge; notice: string | null } {
  if (kind === 'node') return { edge: createNodeEdge(options), notice: null };
  if (kind === 'uws') return { edge: createUwsEdge(options), notice: null };
  try {
    return { edge: createUwsEdge(options), notice: null };
  } catch (error) {
    if (!(error instanceof NoUws)) throw error;
    return { edge: createNodeEdge(options), notice: `${error.message} Serving with node:http.` };
  }
}
