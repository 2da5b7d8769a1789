/** Makes the addresses in notices: of views of the console and of pages of apps, where people reach the gateway. */

import { pageHost, pagePath } from '../../protocol/http/origins.ts';
import { appOfKey, workspaceOfKey } from '../../protocol/ids.ts';
import type { Config } from '../config.ts';

export class NoticeLinks {
  readonly #config: Config;
  readonly #listening: () => { url: string } | null;

  constructor(config: Config, listening: () => { url: string } | null) {
    this.#config = config;
    this.#listening = listening;
  }

  /** A view of the console, such as `runs/<id>`; null where no address is known, as in a host's own server. */
  console(view: string): string | null {
    const base = this.#base;
    return base === null ? null : `${base}/svc/#/${view}`;
  }

  /** The page of an app or draft, by the key of its data. */
  page(key: string): string | null {
    const { appDomain } = this.#config;
    const owner = { app: appOfKey(key), workspace: workspaceOfKey(key) };
    if (appDomain !== null) return `https://${pageHost(owner)}.${appDomain}/`;
    return this.#base === null ? null : `${this.#base}${pagePath(owner)}/`;
  }

  get #base(): string | null {
    const { appDomain, publicUrl } = this.#config;
    if (appDomain !== null) return `https://${appDomain}`;
    return publicUrl ?? this.#listening()?.url.replace(/\/+$/, '') ?? null;
  }
}
