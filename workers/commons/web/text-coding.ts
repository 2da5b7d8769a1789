/** Gives a realm its `TextEncoder` and `TextDecoder`. The thread gets texts and new views of bytes, and what it gives is copied. */
import { across } from '../crossing.ts';
import { leave } from '../leaving.ts';
import type { NodeWeb } from './node-web.ts';
import { asWebClass } from './realm-class.ts';

// App code could replace them.
const { apply, getOwnPropertyDescriptor } = Reflect;
const { getPrototypeOf } = Object;
const getterOf = (owner: object, name: PropertyKey) => getOwnPropertyDescriptor(owner, name)?.get as () => unknown;

/** The name of the class of a typed array; undefined for all else. */
export function typedArrayName(value: unknown): string | undefined {
  return apply(getterOf(getPrototypeOf(Uint8Array.prototype) as object, Symbol.toStringTag), value, []) as
    | string
    | undefined;
}

/** All bytes of a view or buffer of the realm, in place, whatever its class says of them; null for other values. */
export function bytesOf(value: unknown): Uint8Array | null {
  if (!ArrayBuffer.isView(value)) return value instanceof ArrayBuffer ? new Uint8Array(value) : null;
  const owner =
    typedArrayName(value) === undefined ? DataView.prototype : (getPrototypeOf(Uint8Array.prototype) as object);
  const of = <T>(name: string) => apply(getterOf(owner, name), value, []) as T;
  return new Uint8Array(of<ArrayBuffer>('buffer'), of<number>('byteOffset'), of<number>('byteLength'));
}

export function makeTextEncoder({ TextEncoder: NodeEncoder }: NodeWeb): object {
  const node = across(() => new NodeEncoder());

  class TextEncoder {
    get encoding(): string {
      return 'utf-8';
    }

    encode(input: unknown = ''): Uint8Array {
      const text = `${input as string}`;
      return across(() => {
        const bytes = node.encode(text);
        const own = new Uint8Array(bytes.length);
        own.set(bytes);
        return own;
      });
    }

    encodeInto(source: unknown, target: unknown): { read: number; written: number } {
      const text = `${source as string}`;
      if (typedArrayName(target) !== 'Uint8Array') leave('globals', 'TextEncoder.encodeInto, with no Uint8Array');
      const bytes = bytesOf(target) as Uint8Array;
      const { read, written } = across(() => node.encodeInto(text, bytes));
      return { read, written };
    }
  }
  return asWebClass(TextEncoder, 'TextEncoder');
}

export function makeTextDecoder({ TextDecoder: NodeDecoder }: NodeWeb): object {
  class TextDecoder {
    readonly #node: InstanceType<NodeWeb['TextDecoder']>;

    constructor(encoding: unknown = 'utf-8', options: unknown = {}) {
      const label = `${encoding as string}`;
      if ((typeof options !== 'object' && options !== undefined) || Array.isArray(options))
        leave('globals', 'TextDecoder, with such options');
      const { fatal, ignoreBOM } = (options ?? {}) as { fatal?: unknown; ignoreBOM?: unknown };
      const given = { fatal: Boolean(fatal), ignoreBOM: Boolean(ignoreBOM) };
      this.#node = across(() => new NodeDecoder(label, given));
    }

    get encoding(): string {
      return across(() => this.#node.encoding);
    }

    get fatal(): boolean {
      return across(() => this.#node.fatal);
    }

    get ignoreBOM(): boolean {
      return across(() => this.#node.ignoreBOM);
    }

    decode(input: unknown = new Uint8Array(), options: unknown = {}): string {
      const bytes = bytesOf(input);
      if (bytes === null || (typeof options !== 'object' && options !== undefined))
        return leave('globals', 'TextDecoder.decode, with no bytes');
      const stream = Boolean((options as { stream?: unknown } | null)?.stream);
      return across(() => this.#node.decode(bytes, { stream }));
    }
  }
  return asWebClass(TextDecoder, 'TextDecoder');
}
