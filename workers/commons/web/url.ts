/** Gives a realm its `URL`, over one of the thread that gets and gives texts only. */
import { across } from '../crossing.ts';
import { leave } from '../leaving.ts';
import type { NodeWeb } from './node-web.ts';
import { asWebClass } from './realm-class.ts';
import { makeSearchParams, type OwnedParams } from './search-params.ts';

type Classes = { URL: object; URLSearchParams: object };
type NodeUrl = InstanceType<NodeWeb['URL']>;
type Address = [input: string, base: string | undefined];
type WithParse = { parse?: (url: string, base?: string) => NodeUrl | null };
/** Parts that can be set. */
type Part =
  | 'href'
  | 'protocol'
  | 'username'
  | 'password'
  | 'host'
  | 'hostname'
  | 'port'
  | 'pathname'
  | 'search'
  | 'hash';

// App code could replace them.
const { assign, defineProperty } = Object;

export function makeUrl(web: NodeWeb): Classes {
  const NodesUrl = web.URL;
  const { URLSearchParams, owned } = makeSearchParams(web);
  let parsing: NodeUrl | null = null;

  /** With what Node tells of an address that it refuses. */
  const parsed = (...[input, base]: Address): NodeUrl => {
    try {
      return across(() => (base === undefined ? new NodesUrl(input) : new NodesUrl(input, base)));
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'ERR_INVALID_URL') throw error;
      throw assign(error as object, { input }, base === undefined ? {} : { base });
    }
  };

  const addressOf = (given: readonly unknown[]): Address => {
    if (given.length === 0) leave('globals', 'URL, without an address');
    const [input, base] = given;
    return [`${input as string}`, base === undefined ? undefined : `${base as string}`];
  };

  class URL {
    readonly #url: NodeUrl;
    #params: OwnedParams | null = null;

    constructor(...given: unknown[]) {
      const ready = parsing;
      parsing = null;
      this.#url = ready ?? parsed(...addressOf(given));
    }

    get origin(): string {
      return across(() => this.#url.origin);
    }

    get searchParams(): object {
      this.#params ??= owned(this.#read('search'), (text) =>
        across(() => {
          this.#url.search = text;
        }),
      );
      return this.#params.params;
    }

    toString(): string {
      return this.#read('href');
    }

    toJSON(): string {
      return this.#read('href');
    }

    static canParse(...given: unknown[]): boolean {
      const address = addressOf(given);
      return across(() => NodesUrl.canParse(...address));
    }

    static createObjectURL(_of: unknown): never {
      return leave('globals', 'URL.createObjectURL');
    }

    static revokeObjectURL(_url: unknown): never {
      return leave('globals', 'URL.revokeObjectURL');
    }

    static {
      for (const part of [
        'href',
        'protocol',
        'username',
        'password',
        'host',
        'hostname',
        'port',
        'pathname',
        'search',
        'hash',
      ] as const)
        defineProperty(URL.prototype, part, {
          configurable: true,
          get(this: URL) {
            return this.#read(part);
          },
          set(this: URL, value: unknown) {
            this.#write(part, `${value as string}`);
          },
        });
      if ((NodesUrl as WithParse).parse !== undefined)
        defineProperty(URL, 'parse', {
          value: parse,
          configurable: true,
          writable: true,
        });
    }

    #read(part: Part): string {
      return across(() => this.#url[part]);
    }

    #write(part: Part, value: string): void {
      try {
        across(() => {
          this.#url[part] = value;
        });
      } catch (error) {
        throw assign(error as object, { input: value });
      }
      if (part === 'href' || part === 'search') this.#params?.reset(this.#read('search'));
    }
  }

  /** Since Node 22. */
  function parse(...given: unknown[]): URL | null {
    const address = addressOf(given);
    parsing = across(() => (NodesUrl as WithParse).parse?.(...address) ?? null);
    return parsing === null ? null : new URL();
  }

  return { URL: asWebClass(URL, 'URL'), URLSearchParams };
}
