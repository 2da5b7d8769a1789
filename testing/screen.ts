/** A screen that nobody sees, for programs with windows: Xvfb, and what it shows. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import type { Readable } from 'node:stream';

/** Browsers with windows, which the headless shell has not. */
const BROWSERS = ['/usr/bin/chromium', '/usr/bin/google-chrome', '/usr/bin/chromium-browser'];
const PROGRAMS = ['/usr/bin/Xvfb', '/usr/bin/xwininfo'];

/** `BROWSER_WITH_WINDOWS`, or the first that is installed. */
export function browserWithWindows(): string | undefined {
  return process.env.BROWSER_WITH_WINDOWS || BROWSERS.find((path) => existsSync(path));
}

/** Why tests with windows are skipped here, or false. A continuous integration run never skips them: there they fail. */
export function withoutScreen(): string | false {
  if (process.env.CI === 'true' || (browserWithWindows() && PROGRAMS.every((path) => existsSync(path)))) return false;
  return 'Here is no Chromium with windows, no Xvfb or no xwininfo (Debian: chromium, xvfb, x11-utils).';
}

export type Screen = { display: string; titles(): string[]; close(): Promise<void> };

export async function openScreen(): Promise<Screen> {
  const server = spawn('Xvfb', ['-displayfd', '3', '-screen', '0', '1280x900x24', '-nolisten', 'tcp'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  });
  const [number] = (await once(server.stdio[3] as Readable, 'data')) as [Buffer];
  const display = `:${number.toString().trim()}`;
  return {
    display,
    /** Of the windows that are shown, the foremost first. */
    titles() {
      const tree = execFileSync('xwininfo', ['-display', display, '-root', '-children'], { encoding: 'utf8' });
      return [...tree.matchAll(/^ +0x[0-9a-f]+ "(.*)": \(.*?\) +(\d+)x(\d+)/gm)]
        .filter(([, , width]) => Number(width) > 100)
        .map(([, title = '']) => title);
    },
    async close() {
      const ended = once(server, 'exit');
      server.kill();
      await ended;
    },
  };
}
