/** Finds the node that has a run or the address of a webhook (specification, "Calls between nodes"). */
import { LIMITS } from '../../../protocol/limits.ts';
import type { Exchange } from '../../edge/edge.ts';
import type { AllNodes } from './all-nodes.ts';
import type { Found } from './requested-buckets.ts';

/** The header of a node's answer that it has what was asked for: the id of its app. */
export const FOUND_APP = 'svc-found-app';

/** The app, where this node has it. */
export type Locate = (found: Found) => string | null | Promise<string | null>;

export class Finder {
  readonly #nodes: AllNodes;
  readonly #locate: Locate;
  /** Apps of addresses of webhooks that other nodes have. Programs call the same ones again and again. */
  readonly #known = new Map<string, string>();

  constructor(nodes: AllNodes, locate: Locate) {
    this.#nodes = nodes;
    this.#locate = locate;
  }

  /** The app, whichever node has it; null where none has. Rejects with `STORAGE_UNAVAILABLE` where that cannot be known. */
  async find(exchange: Exchange, found: Found): Promise<string | null> {
    const own = await this.#locate(found);
    const { of, id } = found;
    // All nodes have the same directory of workspaces.
    if (own !== null || of === 'workspace') return own;
    const known = of === 'webhook' ? this.#known.get(id) : undefined;
    if (known !== undefined) return known;
    const answers = await this.#nodes.ask({ exchange, method: 'OPTIONS', query: '', body: null });
    // An address that several have is that of the first one, as on one node.
    const [app = null] = answers.flatMap(({ headers }) => headers[FOUND_APP] ?? []).sort();
    if (of === 'webhook' && app !== null) this.#remember(id, app);
    return app;
  }

  /** Its node said that it does not have it any more. */
  forget({ id }: Found): void {
    this.#known.delete(id);
  }

  #remember(slug: string, app: string): void {
    const [oldest] = this.#known.keys();
    if (this.#known.size >= LIMITS.webhooksFound && oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(slug, app);
  }
}
