/** Chooses the edge: uWebSockets.js where its native code loads, else node:http (specification, "Conventions of HTTP"). */
import type { Edge } from './edge.ts';
import type { EdgeOptions } from './exchange.ts';
import { createNodeEdge } from './node.ts';
import { createUwsEdge } from './uws.ts';
import { NoUws } from './uws-binding.ts';

export type EdgeKind = 'auto' | 'uws' | 'node';

/**
 * Makes the edge of a kind. `notice` is the one line to log when `auto` had to take `node`, else null. Throws when `uws` was
 * asked for by name and its native code cannot be loaded.
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
