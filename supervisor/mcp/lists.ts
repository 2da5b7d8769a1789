/** Watches the lists that an MCP client sees at its address, tools and resources, and tells which of them are others now. */
import { hash } from 'node:crypto';
import { LIMITS } from '../../protocol/limits.ts';
import type { ChangeStreams } from '../dispatch/change-streams.ts';
import { LISTS, type ListName } from './subscriptions.ts';
import type { McpTools } from './tools.ts';

/** What the client would be shown, by digest; with the name of the app. */
export type ListDigests = Readonly<Record<ListName, string>>;

/**
 * The lists of one caller at one address. `key` is what the events of its app or draft are kept under; null at the address of all
 * apps, whose lists do not depend on versions.
 */
export type ListSource = { readonly key: string | null; tools(): McpTools | Promise<McpTools> };

/** Never rejects: an app that cannot be described has no lists. */
export async function digestsOf({ tools }: ListSource): Promise<ListDigests> {
  const digest = (title: string, list: unknown) => hash('sha256', JSON.stringify([title, list]));
  try {
    const of = await tools();
    return { tools: digest(of.title, await of.list()), resources: digest(of.title, await of.resources()) };
  } catch {
    return { tools: '', resources: '' };
  }
}

type ListWatchOptions = {
  source: ListSource;
  /** What the client saw last. */
  known: Promise<ListDigests>;
  changes: ChangeStreams;
  changed(lists: ListName[]): void;
  /** The app is gone. */
  gone(): void;
};

export class ListWatch {
  readonly #options: ListWatchOptions;
  readonly #unwatch: () => void;
  #known: Promise<ListDigests>;
  #due: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: ListWatchOptions) {
    const { source, known, changes, gone } = options;
    this.#options = options;
    this.#known = known;
    this.#unwatch =
      source.key === null
        ? () => {}
        : changes.watch(source.key, (what) => {
            if (what === 'reload') this.#look();
            else gone();
          });
    // They may have changed before this began.
    this.#look();
  }

  /** What the client was told last. */
  get known(): Promise<ListDigests> {
    return this.#known;
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#due);
    this.#unwatch();
  }

  /** Versions that follow each other fast are told once. */
  #look(): void {
    this.#due ??= setTimeout(() => {
      this.#due = undefined;
      this.#known = this.#compare(this.#known);
    }, LIMITS.mcpListsMs).unref();
  }

  async #compare(known: Promise<ListDigests>): Promise<ListDigests> {
    const { source, changed } = this.#options;
    const [before, now] = [await known, await digestsOf(source)];
    if (this.#closed) return before;
    const others = LISTS.filter((list) => before[list] !== now[list]);
    if (others.length > 0) changed(others);
    return now;
  }
}
