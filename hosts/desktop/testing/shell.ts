/** Electron's part for tests: notes what is asked of it, and answers as the test says. */
import { copyFileSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../../testing/gateway.ts';
import type { MenuItem, Question, Shell, ShellWindow, WindowOptions } from '../src/shell.ts';
import type { SafeStorage } from '../src/tokens.ts';

/** `present`: it encrypts; `basic_text`: with a password that everybody knows; `absent`: it does not; `locked`: it decrypts nothing. */
export type Store = 'present' | 'basic_text' | 'absent' | 'locked';

export function safeStorageOf(store: Store, { reEncrypt = false } = {}): SafeStorage {
  const turned = (bytes: Buffer) => Buffer.from(bytes.map((byte) => byte ^ 0xff));
  return {
    isAsyncEncryptionAvailable: async () => store !== 'absent',
    encryptStringAsync: async (text) => turned(Buffer.from(text)),
    async decryptStringAsync(encrypted) {
      if (store === 'locked') throw new Error('The key store is locked.');
      return { result: turned(encrypted).toString(), shouldReEncrypt: reEncrypt };
    },
    getSelectedStorageBackend: () => (store === 'basic_text' ? 'basic_text' : 'gnome_libsecret'),
  };
}

export class TestWindow implements ShellWindow {
  readonly options: WindowOptions;
  readonly loaded: string[] = [];
  focused = 0;

  constructor(options: WindowOptions) {
    this.options = options;
  }

  async load(url: string): Promise<void> {
    this.loaded.push(url);
  }

  url(): string {
    return this.loaded.at(-1) ?? '';
  }

  focus(): void {
    this.focused++;
  }

  close(): void {
    this.options.onClosed();
  }
}

export class TestShell implements Shell {
  readonly platform = process.platform;
  readonly env: NodeJS.ProcessEnv;
  readonly userData: string;
  readonly program = '/opt/svc/svc-desktop';
  readonly node = process.execPath;
  readonly gatewayScript: string;
  version = '0.1.0';
  safeStorage: SafeStorage;
  readonly windows: TestWindow[] = [];
  readonly asked: Question[] = [];
  menu: MenuItem[] = [];
  copied = '';
  hasQuit = false;
  /** The buttons that are pressed, in turn; then always the last one. */
  presses: string[] = [];
  addGateway: Parameters<Shell['askForGateway']>[0] | null = null;
  readonly loginItem = { get: () => false, set: () => {} };

  /** Everything is below `folder`, where the gateway is installed as in the program's package. */
  constructor(folder: string, store: Store = 'present') {
    this.userData = join(folder, 'user');
    this.env = { PATH: process.env.PATH, HOME: folder, TMPDIR: folder };
    this.safeStorage = safeStorageOf(store);
    const gateway = join(folder, 'gateway');
    this.gatewayScript = join(gateway, 'daemon.mjs');
    if (mkdirSync(join(gateway, 'node_modules'), { recursive: true }) === undefined) return;
    symlinkSync(root, join(gateway, 'node_modules/svc-gateway'));
    copyFileSync(join(root, 'hosts/desktop/daemon.mjs'), this.gatewayScript);
  }

  openWindow(options: WindowOptions): ShellWindow {
    const window = new TestWindow(options);
    this.windows.push(window);
    return window;
  }

  askForGateway(add: Parameters<Shell['askForGateway']>[0]): void {
    this.addGateway = add;
  }

  setMenu(items: MenuItem[]): void {
    this.menu = items;
  }

  async ask(question: Question): Promise<number> {
    this.asked.push(question);
    const press = this.presses.shift();
    return press === undefined ? question.buttons.length - 1 : question.buttons.indexOf(press);
  }

  copy(text: string): void {
    this.copied = text;
  }

  quit(): void {
    this.hasQuit = true;
  }

  /** The texts of the menu, those of submenus after a `>`. */
  labels(items: MenuItem[] = this.menu): string[] {
    return items.flatMap((item) =>
      'type' in item ? [] : [item.label, ...this.labels(item.submenu ?? []).map((label) => `> ${label}`)],
    );
  }

  /** Presses an item of the menu. */
  press(label: string, items: MenuItem[] = this.menu): void {
    for (const item of items) {
      if ('type' in item) continue;
      if (item.label === label) item.click?.();
      this.press(label, item.submenu ?? []);
    }
  }
}
