/** What the desktop program needs of Electron, as `main.ts` gives it. */
import type { SafeStorage } from './tokens.ts';

/** An item of the tray's menu; without `click` and `submenu` it is a line of text. */
export type MenuItem =
  | { type: 'separator' }
  | { label: string; click?: () => void; checked?: boolean; submenu?: MenuItem[] };

/** Where a page may lead: into the same window, or to the browser of the user; anywhere else it may not go. */
export type Way = 'here' | 'outside' | 'refused';

export type WindowOptions = {
  /** Windows of the same partition share cookies and storage, which stay; others do not. */
  partition: string;
  /** Ends the title of every page. */
  note: string;
  /** Decides about each address that a page wants to show, in this window or a new one. */
  wayTo(url: string): Way;
  onClosed(): void;
};

export type ShellWindow = {
  /** Resolves when the page is shown, or when it turned out that it cannot be. */
  load(url: string): Promise<void>;
  /** Shows it in front of other windows. */
  focus(): void;
  close(): void;
};

/** Who closes it without a choice presses the last button, which changes nothing. */
export type Question = { message: string; detail: string; buttons: string[] };

export type Shell = {
  platform: NodeJS.Platform;
  env: NodeJS.ProcessEnv;
  /** The version of this program, and of the gateway in it. */
  version: string;
  /** The folder that keeps everything. */
  userData: string;
  /** The program to start at login. */
  program: string;
  /** Node, and the script that runs the gateway. */
  node: string;
  gatewayScript: string;
  safeStorage: SafeStorage;
  openWindow(options: WindowOptions): ShellWindow;
  /** Asks for the address and the token of a gateway; `add` answers what is wrong, or null. */
  askForGateway(add: (entry: { url: string; label: string; token: string }) => Promise<string | null>): void;
  setMenu(items: MenuItem[]): void;
  /** Resolves with the number of the button that was pressed. */
  ask(question: Question): Promise<number>;
  copy(text: string): void;
  /** Of macOS and Windows; on Linux the program writes a file. */
  loginItem: { get(): boolean; set(open: boolean): void };
  quit(): void;
};
