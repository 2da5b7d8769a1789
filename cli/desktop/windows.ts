/** Shows pages as windows of an installed browser, and brings those to the front that are open already. */
import { spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { DevTools, type Target } from './devtools.ts';

/** `page` is the address that the window shows; `link` leads there and signs the browser in, once. */
export type Page = { page: string; link: string };
export type Shown = 'opened' | 'focused';

/** Milliseconds that a browser may take until it has a window. */
const WINDOW_MS = 60_000;
/** Milliseconds that its last words may take after its end. */
const LAST_WORDS_MS = 1000;
/** Bytes of what a browser last said that are kept, to explain why it ended. */
const KEPT = 4000;
/** Of a page: whether its session is still good. */
const SIGNED_IN = `fetch('/svc/_session', { headers: { 'svc-page-key': localStorage.getItem('svc:page-key') ?? '' } })
  .then((answer) => answer.json()).then(({ signedIn }) => signedIn, () => true)`;

export class Windows {
  readonly #program: string;
  readonly #profile: string;
  readonly #onEnded: () => void;
  /** Of the browser that runs; null for none. */
  #devTools: DevTools | null = null;
  #last: Promise<unknown> = Promise.resolve();

  /** `onEnded` is called when the browser has ended: its last window was closed, or it failed. */
  constructor(program: string, profile: string, onEnded: () => void) {
    this.#program = program;
    this.#profile = profile;
    this.#onEnded = onEnded;
  }

  /** One after the other: two windows of the same page never open at once. Rejects with what the browser said. */
  show(page: Page): Promise<Shown> {
    const shown = this.#last.then(() => this.#show(page));
    this.#last = shown.catch(() => {});
    return shown;
  }

  /** Closes every window. */
  async close(): Promise<void> {
    await this.#devTools?.send('Browser.close').catch(() => {});
  }

  async #show({ page, link }: Page): Promise<Shown> {
    const open = await this.#find(page);
    if (open !== undefined) {
      await this.#bringToFront(open, link);
      return 'focused';
    }
    // An image of the page's own origin, by which desktops tell its windows from others: the link must not be in the
    // arguments of a program, which every user of the machine can read.
    const first = new URL('/favicon.ico', page).href;
    const target = await this.#openAt(first);
    await this.#inside(target, (send) => send('Page.navigate', { url: link }));
    return 'opened';
  }

  async #find(page: string): Promise<Target | undefined> {
    if (this.#devTools === null) return undefined;
    type Targets = { targetInfos: Target[] };
    const { targetInfos } = await this.#devTools.send<Targets>('Target.getTargets');
    return targetInfos.find(({ type, url }) => type === 'page' && isAt(url, page));
  }

  async #bringToFront(target: Target, link: string): Promise<void> {
    const devTools = this.#running();
    const { targetId } = target;
    type Place = { windowId: number; bounds: { windowState?: string } };
    const { windowId, bounds } = await devTools.send<Place>('Browser.getWindowForTarget', { targetId });
    if (bounds.windowState === 'minimized')
      await devTools.send('Browser.setWindowBounds', { windowId, bounds: { windowState: 'normal' } });
    await devTools.send('Target.activateTarget', { targetId });
    await this.#inside(target, async (send) => {
      const asked = { expression: SIGNED_IN, awaitPromise: true, returnByValue: true };
      const { result } = await send<{ result: { value?: unknown } }>('Runtime.evaluate', asked);
      if (result.value === false) await send('Page.navigate', { url: link });
    });
  }

  /** Works in a page, as its developer tools would. */
  async #inside(
    { targetId }: Target,
    work: (send: <T>(method: string, params: object) => Promise<T>) => Promise<unknown>,
  ): Promise<void> {
    const devTools = this.#running();
    const attached = { targetId, flatten: true };
    const { sessionId } = await devTools.send<{ sessionId: string }>('Target.attachToTarget', attached);
    await work((method, params) => devTools.send(method, params, sessionId));
    await devTools.send('Target.detachFromTarget', { sessionId });
  }

  /** Resolves when a new window shows the address. */
  async #openAt(url: string): Promise<Target> {
    const app = `--app=${url}`;
    const isRunning = this.#devTools !== null;
    const devTools = isRunning ? this.#running() : this.#start(app);
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<Target>((resolve, reject) => {
        const fail = () => reject(new Error(`It showed no window within ${WINDOW_MS / 1000} s.`));
        timer = setTimeout(fail, WINDOW_MS);
        devTools.onTarget = (target) => {
          if (target.type === 'page' && target.url === url) resolve(target);
        };
        devTools.send('Target.setDiscoverTargets', { discover: true }).catch(reject);
        // A browser that runs on this profile opens it, and this process ends.
        if (isRunning) spawn(this.#program, [...this.#arguments(), app], { stdio: 'ignore' }).on('error', reject);
      });
    } finally {
      clearTimeout(timer);
      devTools.onTarget = () => {};
    }
  }

  #start(app: string): DevTools {
    const child = spawn(this.#program, [...this.#arguments(), '--remote-debugging-pipe', app], {
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
    });
    const [, , stderr, commands, answers] = child.stdio as unknown as [null, null, Readable, Writable, Readable];
    const devTools = new DevTools(answers, commands);
    let said = '';
    stderr.setEncoding('utf8').on('data', (chunk: string) => {
      said = (said + chunk).slice(-KEPT);
    });
    const ended = (error: Error) => {
      if (this.#devTools !== devTools) return;
      this.#devTools = null;
      devTools.end(error);
      this.#onEnded();
    };
    child.on('error', ended);
    child.on('exit', (code) => {
      const end = () => ended(new Error(lastLine(said) ?? `It ended with the exit code ${code}.`));
      // All that it said has come then, unless a process that it left behind keeps its standard error.
      child.once('close', end);
      setTimeout(end, LAST_WORDS_MS).unref();
    });
    this.#devTools = devTools;
    return devTools;
  }

  #running(): DevTools {
    if (this.#devTools === null) throw new Error('It has ended.');
    return this.#devTools;
  }

  #arguments(): string[] {
    return [
      `--user-data-dir=${this.#profile}`,
      '--no-first-run',
      '--no-default-browser-check',
      '--hide-crash-restore-bubble',
      '--disable-background-mode',
    ];
  }
}

/** The page's window may show any address below it; the console's is one page, beside which all apps may be. */
export function isAt(url: string, page: string): boolean {
  if (!URL.canParse(url)) return false;
  const { origin, pathname } = new URL(url);
  const wanted = new URL(page);
  if (origin !== wanted.origin) return false;
  return wanted.pathname === '/svc/' ? pathname === '/svc/' : pathname.startsWith(wanted.pathname);
}

function lastLine(text: string): string | undefined {
  return text.trim().split('\n').at(-1) || undefined;
}
