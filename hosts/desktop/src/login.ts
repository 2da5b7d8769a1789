/** Starts the program when its user signs in: by the system's own setting, on Linux by a file of the desktop (XDG autostart). */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { makeFolder } from '../../../storage/files/make-folder.ts';
import type { Shell } from './shell.ts';

/** Given to a start that shows no window. */
export const HIDDEN = '--hidden';

type Start = Pick<Shell, 'platform' | 'env' | 'program' | 'loginItem'>;

export function startsAtLogin(shell: Start): boolean {
  return shell.platform === 'linux' ? existsSync(fileOf(shell)) : shell.loginItem.get();
}

export function setStartAtLogin(shell: Start, open: boolean): void {
  const file = fileOf(shell);
  if (shell.platform !== 'linux') shell.loginItem.set(open);
  else if (!open) rmSync(file, { force: true });
  else {
    makeFolder(dirname(file));
    writeFileSync(file, autostartFile(shell.program));
  }
}

/** The text of the file; the program's path is quoted as the specification of desktop entries wants it. */
export function autostartFile(program: string): string {
  const quoted = `"${program
    .replace(/(["`$\\])/g, '\\$1')
    .replaceAll('\\', '\\\\')
    .replaceAll('%', '%%')}"`;
  return `[Desktop Entry]\nType=Application\nName=svc\nExec=${quoted} ${HIDDEN}\nX-GNOME-Autostart-enabled=true\n`;
}

function fileOf({ env }: Start): string {
  const config = env.XDG_CONFIG_HOME || join(env.HOME ?? homedir(), '.config');
  return join(config, 'autostart', 'svc-desktop.desktop');
}
