/** The desktop program: its gateways, their windows, the tray, and links. */
import { CommandError } from '../../../cli/failure.ts';
import { StartError } from '../../../cli/gateway/background.ts';
import { Client } from '../../../cli/gateway/client.ts';
import { whoListens } from '../../../cli/gateway/listener.ts';
import { makeLink } from '../../../cli/gateway/page-links.ts';
import { readAll } from '../../../cli/resource.ts';
import { APPS } from '../../../cli/resources.ts';
import { DEFAULTS, LIMITS } from '../../../protocol/limits.ts';
import { CrashLog } from './crash-log.ts';
import { addressOf, EntryError, Gateways, isOpenToNetwork, LOCAL, type Profile } from './gateways.ts';
import { type Destination, linkAmong, readLink, wayTo } from './links.ts';
import { LocalGateway } from './local-gateway.ts';
import { HIDDEN, setStartAtLogin, startsAtLogin } from './login.ts';
import { type MenuGateway, menuOf } from './menu.ts';
import type { Shell, ShellWindow } from './shell.ts';
import { TokenLockedError, Tokens } from './tokens.ts';

/** Milliseconds between two readings of the apps for the menu. */
const MENU_MS = 30_000;
/** A window is signed in again when it is shown after so many milliseconds: a little before its session ends. */
const SIGN_IN_MS = LIMITS.sessionMs - 10 * 60 * 1000;
const UNPROTECTED =
  'The system offers no key store, so the access tokens are in files that only your account can read. Install and unlock one, such as GNOME Keyring or KWallet, and start this program again: it moves them there.';

type Open = { window: ShellWindow; signedInAt: number };

export class Desktop {
  readonly gateways: Gateways;
  readonly #shell: Shell;
  readonly #tokens: Tokens;
  readonly #local: LocalGateway;
  readonly #crashes: CrashLog;
  readonly #windows = new Map<string, Open>();
  readonly #opening = new Map<string, Promise<void>>();
  #menu: NodeJS.Timeout | undefined;

  constructor(shell: Shell, crashes: CrashLog = new CrashLog(shell.userData, shell.version), lookMs?: number) {
    this.#shell = shell;
    this.#crashes = crashes;
    this.gateways = new Gateways(shell.userData);
    this.#tokens = new Tokens(shell.safeStorage, shell.platform);
    const events = {
      crashed: (pid: number) => crashes.note('The gateway ended by itself, and is started again.', { pid }),
      restarted: () => void this.refreshMenu(),
      failed: (error: Error) => {
        crashes.error('The gateway cannot be started.', error);
        void this.#showLocal(error);
      },
    };
    this.#local = new LocalGateway(shell, this.gateways, this.#tokens, events, lookMs);
  }

  /** The first start, with the words of its command line. */
  async start(words: readonly string[]): Promise<void> {
    this.#menu = setInterval(() => void this.refreshMenu(), MENU_MS);
    if (words.includes(HIDDEN)) await this.#connected(LOCAL);
    else await this.startedAgain(words);
    await this.refreshMenu();
  }

  /** A second start, which the system hands to the program that runs. */
  async startedAgain(words: readonly string[]): Promise<void> {
    const link = linkAmong(words);
    if (link === undefined) await this.open({ gateway: LOCAL, app: null });
    else await this.follow(link);
  }

  /** Opens what an `svc://` link names; false for one that is not ours, which does nothing. */
  async follow(link: string): Promise<boolean> {
    const destination = readLink(link);
    const known = await this.gateways.list();
    if (destination === null || !known.some(({ id }) => id === destination.gateway)) {
      this.#crashes.note('A link was refused.', { link: link.slice(0, 300) });
      return false;
    }
    await this.open(destination);
    return true;
  }

  /** Shows a page in its window: the one that is open, or a new one. Asked twice at once, it opens one. */
  open({ gateway, app }: Destination): Promise<void> {
    const key = `${gateway}/${app ?? ''}`;
    const opening = this.#opening.get(key) ?? this.#open(key, gateway, app).finally(() => this.#opening.delete(key));
    this.#opening.set(key, opening);
    return opening;
  }

  async #open(key: string, gateway: string, app: string | null): Promise<void> {
    const client = await this.#connected(gateway);
    if (client === null) return;
    const open = this.#windows.get(key);
    try {
      if (open !== undefined) {
        open.window.focus();
        if (Date.now() - open.signedInAt < SIGN_IN_MS) return;
      }
      // An error here names the app; the window would only show an error page.
      if (app !== null) await client.call('GET /svc/_apps/:id', { params: { id: app } });
      const link = await makeLink(client, app === null ? undefined : { app });
      const window = open?.window ?? (await this.#newWindow(key, gateway, new URL(link.url).origin));
      this.#windows.set(key, { window, signedInAt: Date.now() });
      await window.load(link.url);
    } catch (error) {
      await this.#tell(`${app ?? 'The console'} cannot be opened.`, error);
    }
  }

  async #newWindow(key: string, gateway: string, console: string): Promise<ShellWindow> {
    return this.#shell.openWindow({
      partition: `persist:${gateway}`,
      note: (await this.#tokens.isProtected()) ? '' : ' – the token is not protected',
      wayTo: (url) => wayTo(url, console),
      onClosed: () => this.#windows.delete(key),
    });
  }

  /** A client of a gateway that answers; null after its user was told why there is none. */
  async #connected(gateway: string): Promise<Client | null> {
    if (gateway !== LOCAL) return this.#remote(gateway);
    for (let port: number | undefined; ; ) {
      try {
        return await this.#local.connect(port);
      } catch (error) {
        const next = await this.#askAboutLocal(error);
        if (next === null) return null;
        port = next.port;
      }
    }
  }

  /** What to try next; null to give up. */
  async #askAboutLocal(error: unknown): Promise<{ port?: number } | null> {
    const { message, detail } = wordsOf(error);
    if (error instanceof TokenLockedError) {
      const buttons = ['Try again', 'Make a new token', 'Close'];
      const advice = `${detail}\n\nUnlock the system's key store and try again. A new token ends all sessions of browsers.`;
      const chosen = await this.#shell.ask({ message, detail: advice, buttons });
      if (chosen === 1) await this.#tokens.make(this.gateways.layout(LOCAL).token);
      return chosen === 2 ? null : {};
    }
    if (error instanceof StartError && error.code === 'EADDRINUSE') {
      const port = Number(new URL((await this.gateways.local()).url ?? `http://x:${DEFAULTS.port}`).port);
      const { env, platform, userData } = this.#shell;
      const { what } = await whoListens(DEFAULTS.host, port, { env, platform, cwd: userData });
      const chosen = await this.#shell.ask({
        message: `${what} is listening on port ${port}.`,
        detail: 'Stop it and try again; or use another port, which changes the addresses of all pages.',
        buttons: ['Try again', 'Use another port', 'Close'],
      });
      return chosen === 2 ? null : chosen === 1 ? { port: 0 } : {};
    }
    this.#crashes.error('The gateway cannot be started.', error);
    const chosen = await this.#shell.ask({ message, detail, buttons: ['Try again', 'Close'] });
    return chosen === 0 ? {} : null;
  }

  /** After it ended and could not be started again: asks, and shows nothing new when that goes well. */
  async #showLocal(error: Error): Promise<void> {
    if ((await this.#askAboutLocal(error)) !== null) await this.#connected(LOCAL);
    await this.refreshMenu();
  }

  async #remote(id: string): Promise<Client | null> {
    try {
      const profile = (await this.gateways.list()).find((one) => one.id === id);
      if (profile?.url === undefined) throw new EntryError('The gateway was removed from this program.');
      const token = await this.#tokens.read(this.gateways.layout(id).token);
      if (token === null) throw new EntryError('Its token is missing. Forget the gateway, and add it again.');
      return clientOf(profile.url, token);
    } catch (error) {
      await this.#tell('The gateway cannot be opened.', error);
      return null;
    }
  }

  /** Asks for another gateway, and opens its console. */
  askForGateway(): void {
    this.#shell.askForGateway(async (entry) => {
      try {
        const profile = await this.add(entry);
        await this.refreshMenu();
        if (profile !== null) void this.open({ gateway: profile.id, app: null });
        return null;
      } catch (error) {
        const { message, detail } = wordsOf(error);
        return [message, detail].filter(Boolean).join(' ');
      }
    });
  }

  /** Adds a gateway that answers and takes the token; null if its user changed their mind. Throws what is wrong. */
  async add(entry: { url: string; label: string; token: string }): Promise<Profile | null> {
    const url = addressOf(entry.url.trim());
    const token = entry.token.trim();
    if (!/^[!-~]{16,256}$/.test(token))
      throw new EntryError('The token is missing: "svc token" prints it on the machine of the gateway.');
    if (isOpenToNetwork(url)) {
      const detail = 'Others on the network can read the token and all data. Use an address that begins with https.';
      const question = { message: `${url} is not encrypted.`, detail, buttons: ['Add it anyway', 'Cancel'] };
      if ((await this.#shell.ask(question)) !== 0) return null;
    }
    await makeLink(clientOf(url, token));
    const profile = await this.gateways.add(url, entry.label.trim() || new URL(url).hostname);
    await this.#tokens.write(this.gateways.layout(profile.id).token, token);
    return profile;
  }

  async remove({ id, label }: Profile): Promise<void> {
    const detail = 'The gateway itself and its data stay as they are.';
    if ((await this.#shell.ask({ message: `Forget ${label}?`, detail, buttons: ['Forget', 'Cancel'] })) !== 0) return;
    for (const [key, { window }] of this.#windows) if (key.startsWith(`${id}/`)) window.close();
    await this.gateways.remove(id);
    await this.refreshMenu();
  }

  /** Draws the menu with the apps that the gateways have now. */
  async refreshMenu(): Promise<void> {
    const isProtected = await this.#tokens.isProtected();
    const gateways = await Promise.all((await this.gateways.list()).map((profile) => this.#menuGateway(profile)));
    const shell = this.#shell;
    const quit = () => this.quit();
    const items = menuOf(
      { gateways, isProtected, startsAtLogin: startsAtLogin(shell) },
      {
        open: (destination) => void this.open(destination),
        add: () => this.askForGateway(),
        remove: (profile) => void this.remove(profile),
        explainToken: () =>
          void shell.ask({ message: 'The tokens are not protected here.', detail: UNPROTECTED, buttons: ['Close'] }),
        copyToken: () => void this.copyToken(),
        setStartAtLogin: (open) => {
          setStartAtLogin(shell, open);
          void this.refreshMenu();
        },
        quit,
        stopAndQuit: () => void this.stopAndQuit(),
      },
    );
    shell.setMenu(items);
  }

  async #menuGateway(profile: Profile): Promise<MenuGateway> {
    try {
      const { id, url = '' } = profile;
      const token = await this.#tokens.read(this.gateways.layout(id).token);
      const client = id === LOCAL ? await this.#local.current : clientOf(url, token ?? '');
      if (client === null) return { profile, apps: null };
      const apps = await readAll(client, APPS, [], LIMITS.helloMs);
      return { profile, apps: apps.map(({ id, name }) => ({ id, name: name || id })) };
    } catch {
      return { profile, apps: null };
    }
  }

  /** For the command line: the environment variables that name our gateway. */
  async copyToken(): Promise<void> {
    const client = await this.#connected(LOCAL);
    if (client !== null) this.#shell.copy(`export SVC_URL=${client.url} SVC_TOKEN=${client.connection.token ?? ''}\n`);
  }

  /** Ends the program; the gateway goes on. */
  quit(): void {
    clearInterval(this.#menu);
    this.#local.close();
    this.#shell.quit();
  }

  async stopAndQuit(): Promise<void> {
    await this.#local.stop().catch((error: unknown) => this.#tell('The gateway cannot be stopped.', error));
    this.quit();
  }

  async #tell(what: string, error: unknown): Promise<void> {
    const { message, detail } = wordsOf(error);
    await this.#shell.ask({ message: what, detail: [message, detail].filter(Boolean).join('\n'), buttons: ['Close'] });
  }
}

function clientOf(url: string, token: string): Client {
  return new Client({ url, urlFrom: 'this program', token, tokenFrom: 'this program' });
}

function wordsOf(error: unknown): { message: string; detail: string } {
  const { message } = error as Error;
  return { message, detail: error instanceof CommandError ? [error.hint ?? []].flat().join('\n') : '' };
}
