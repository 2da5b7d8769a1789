/** `openclaw svc …`: runs the command line of svc for the gateway inside this host. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { hostSecrets } from './admission.ts';
import type { CommandLine, HostConfig } from './host-api.ts';
import { unpacked } from './program.ts';
import { hostUrl, PLUGIN, settingsOf } from './settings.ts';

export const COMMAND = {
  name: PLUGIN,
  description: 'The command line of svc, for the gateway inside this OpenClaw',
  hasSubcommands: true,
};

export function addCommand(program: CommandLine, config: HostConfig): void {
  program
    .command(COMMAND.name)
    .description(COMMAND.description)
    .argument('[arguments...]', 'a command of svc, such as: open, apps, push, chat')
    .allowUnknownOption()
    .helpOption(false)
    .action(() => run(config));
}

async function run(config: HostConfig): Promise<void> {
  const at = process.argv.indexOf(COMMAND.name, 2);
  const [secret] = hostSecrets(config, process.env);
  const { dataDir, node } = settingsOf(config, stateDir());
  const { cli } = await unpacked(stateDir());
  // The host's own options are not for it, and neither is an address that the shell may have.
  const env = {
    ...process.env,
    SVC_URL: hostUrl(config, process.env),
    SVC_DATA_DIR: dataDir,
    ...(secret !== undefined && { SVC_TOKEN: secret }),
  };
  const child = spawn(node, [cli, ...process.argv.slice(at + 1)], { stdio: 'inherit', env });
  const [code] = (await once(child, 'exit')) as [number | null];
  process.exitCode = code ?? 1;
}

/** As the host finds it. */
function stateDir(): string {
  const { OPENCLAW_STATE_DIR, OPENCLAW_HOME, HOME } = process.env;
  if (OPENCLAW_STATE_DIR) return resolve(OPENCLAW_STATE_DIR);
  return join(OPENCLAW_HOME ?? HOME ?? homedir(), '.openclaw');
}
