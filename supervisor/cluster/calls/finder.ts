/** Finds the app of a run, the address of a webhook or a workspace (specification, "Calls between nodes"). */
import { RUN_ID } from '../../../protocol/routes/automations/runs-rows.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import type { Exchange } from '../../edge/edge.ts';
import type { AllNodes } from './all-nodes.ts';
import type { Found } from './requested-buckets.ts';

/** The header of a node's answer that it has what was asked for: the id of its app. */
export const FOUND_APP = 'svc-found-app';

const RUN = shape(RUN_ID);

/** The app: of a run where this node has it, else of what any node knows. */
export type Locate = (found: Found) => string | null | Promise<string | null>;

export class Finder {
  readonly #nodes: AllNodes;
  readonly #locate: Locate;

  constructor(nodes: AllNodes, locate: Locate) {
    this.#nodes = nodes;
    this.#locate = locate;
  }

  /** The app, whichever node has it; null where none has. Rejects with `STORAGE_UNAVAILABLE` where that cannot be known. */
  async find(exchange: Exchange, found: Found): Promise<string | null> {
    const own = await this.#locate(found);
    // All nodes have the same directories of the others.
    if (own !== null || found.of !== 'run' || !RUN.holds(found.id)) return own;
    const answers = await this.#nodes.ask({ exchange, method: 'OPTIONS', query: '', body: null });
    return answers.flatMap(({ headers }) => headers[FOUND_APP] ?? [])[0] ?? null;
  }
}
