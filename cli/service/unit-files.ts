/** Makes the files by which systemd and launchd run the gateway as a service of a user, and reads their command back. */
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Surroundings } from '../gateway/connection.ts';

export type ServiceSpec = {
  /** Absolute program and its words. */
  command: string[];
  /** Where the programs of agents are found. */
  path: string;
  /** Of docs/install.md. */
  document: string;
};

/** The name of the unit and of the agent. */
export const SERVICE_NAME = 'svc-gateway';

/** Where the unit of the user's systemd is, or the agent of launchd. */
export function serviceFile({ env, platform }: Pick<Surroundings, 'env' | 'platform'>): string {
  const home = env.HOME ?? homedir();
  if (platform === 'darwin') return join(home, 'Library/LaunchAgents', `${SERVICE_NAME}.plist`);
  return join(env.XDG_CONFIG_HOME || join(home, '.config'), 'systemd/user', `${SERVICE_NAME}.service`);
}

/** The data directory in such a file; null where there is no file. */
export function dataDirectoryIn(file: string): string | null {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return null;
  }
  const words = commandIn(text);
  return words[words.indexOf('--data-dir') + 1] ?? null;
}

/** A unit for `systemctl --user`. */
export function systemdUnit({ command, path, document }: ServiceSpec): string {
  // The colon keeps systemd from replacing what looks like a variable.
  return `# Made by "svc service install", which writes it anew.
[Unit]
Description=svc-gateway
Documentation=${`file:${document}`.replaceAll('%', '%%').replaceAll(' ', '%%20')}
StartLimitIntervalSec=5min
StartLimitBurst=10

[Service]
Type=notify
# The messages are sent by systemd-notify, which the gateway starts.
NotifyAccess=all
WatchdogSec=30s
# Opening a large data directory after a crash, or a newer release that changes its databases, takes longer than usual.
TimeoutStartSec=10min
Environment=${quoted(`PATH=${path}`)}
ExecStart=:${command.map(quoted).join(' ')}
# Calls that are under way have 10 seconds to end, and a node of a cluster 20 more to hand over. The gateway stops its own
# processes: only what is left is killed.
KillMode=mixed
TimeoutStopSec=60s
Restart=on-failure
RestartSec=1s
LimitNOFILE=65536
UMask=0077

[Install]
WantedBy=default.target
`;
}

/** A word of a unit file. */
function quoted(word: string): string {
  return `"${word.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%')}"`;
}

/** A property list for `~/Library/LaunchAgents`. `log` is the file for what the gateway prints. */
export function launchdPlist({ command, path }: ServiceSpec, log: string): string {
  const string = (text: string): string => `<string>${escaped(text)}</string>`;
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>${string(SERVICE_NAME)}
  <key>ProgramArguments</key>
  <array>
${command.map((word) => `    ${string(word)}`).join('\n')}
  </array>
  <key>EnvironmentVariables</key>
  <dict><key>PATH</key>${string(path)}</dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key>
  <dict><key>SuccessfulExit</key><false/></dict>
  <key>ExitTimeOut</key><integer>60</integer>
  <key>Umask</key><integer>63</integer>
  <key>SoftResourceLimits</key>
  <dict><key>NumberOfFiles</key><integer>65536</integer></dict>
  <key>StandardOutPath</key>${string(log)}
  <key>StandardErrorPath</key>${string(log)}
</dict>
</plist>
`;
}

const ENTITIES: [text: string, entity: string][] = [
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
];

function escaped(text: string): string {
  return ENTITIES.reduce((all, [plain, entity]) => all.replaceAll(plain, entity), text);
}

/** The command in a file that one of these made; empty for another file. */
export function commandIn(text: string): string[] {
  const [, unit] = /^ExecStart=:(.*)$/m.exec(text) ?? [];
  if (unit !== undefined)
    return [...unit.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, word = '']) =>
      word.replaceAll('%%', '%').replace(/\\(.)/g, '$1'),
    );
  const [, list = ''] = /<key>ProgramArguments<\/key>\s*<array>(.*?)<\/array>/s.exec(text) ?? [];
  return [...list.matchAll(/<string>(.*?)<\/string>/gs)].map(([, word = '']) =>
    ENTITIES.reduceRight((all, [plain, entity]) => all.replaceAll(entity, plain), word),
  );
}
