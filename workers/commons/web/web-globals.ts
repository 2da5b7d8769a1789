/**
 * Gives a realm the web's globals that need nothing of the thread but texts and bytes. Each is made when it is first used
 * (specification, "Commons").
 */
import { effect } from '../../handler/effects.ts';
import { across } from '../crossing.ts';
import { leave } from '../leaving.ts';
import type { NodeWeb } from './node-web.ts';
import { asWebClass } from './realm-class.ts';
import { makeStructuredClone } from './structured-clone.ts';
import { bytesOf, makeTextDecoder, makeTextEncoder, typedArrayName } from './text-coding.ts';
import { makeUrl } from './url.ts';

/** As much as the web gives at a time. */
const RANDOM_BYTES = 65_536;

export function webGlobals(web: NodeWeb): Map<string, () => unknown> {
  const once = <T>(make: () => T): (() => T) => {
    let made: T | undefined;
    return () => (made ??= make());
  };
  const url = once(() => makeUrl(web));
  const crypto = once(() => makeCrypto(web));
  return new Map<string, () => unknown>([
    ['URL', () => url().URL],
    ['URLSearchParams', () => url().URLSearchParams],
    ['TextEncoder', () => makeTextEncoder(web)],
    ['TextDecoder', () => makeTextDecoder(web)],
    ['structuredClone', () => makeStructuredClone(web.types)],
    ['crypto', () => new (crypto())()],
    ['Crypto', crypto],
    ['atob', () => ofText(web, 'atob')],
    ['btoa', () => ofText(web, 'btoa')],
  ]);
}

/** Node adds these to its own realm where V8 does not have them. */
export function completeSymbols(): void {
  for (const name of ['dispose', 'asyncDispose'])
    if (!Object.hasOwn(Symbol, name)) Object.defineProperty(Symbol, name, { value: Symbol(`Symbol.${name}`) });
}

/** What Node refuses, it refuses with an object of the thread. */
function ofText(web: NodeWeb, name: 'atob' | 'btoa'): (text: unknown) => string {
  const convert = (...given: unknown[]): string => {
    if (given.length === 0) leave('globals', name);
    const own = `${given[0] as string}`;
    try {
      return web[name](own);
    } catch {
      return leave('globals', `${name}, with a text that it refuses`);
    }
  };
  Object.defineProperty(convert, 'name', { value: name });
  return convert;
}

function makeCrypto({ randomBytes, randomUUID }: NodeWeb): new () => object {
  class Crypto {
    get subtle(): never {
      return leave('globals', 'crypto.subtle');
    }

    getRandomValues(target: unknown): unknown {
      effect();
      const name = typedArrayName(target);
      const bytes = name === undefined || name.startsWith('Float') ? null : bytesOf(target);
      if (bytes === null || bytes.length > RANDOM_BYTES)
        return leave('globals', 'crypto.getRandomValues, with what it refuses');
      across(() => bytes.set(randomBytes(bytes.length)));
      return target;
    }

    randomUUID(): string {
      effect();
      return across(() => randomUUID());
    }
  }
  return asWebClass(Crypto, 'Crypto');
}
