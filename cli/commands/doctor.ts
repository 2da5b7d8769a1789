/** `svc doctor`: checks the machine and the gateway on it. Exit code 1 when something is broken. */
import { DEFAULTS } from '../../protocol/limits.ts';
import type { CommandContext } from '../command.ts';
import {
  type Check,
  checkDaemon,
  checkDataDirectory,
  checkDisk,
  checkEdge,
  checkNode,
  checkPort,
  checkPrivacy,
  checkProfile,
  checkSqlite,
} from '../doctor/health-checks.ts';
import { checkSessions } from '../doctor/stale-sessions.ts';
import { EXIT } from '../failure.ts';

const MARKS = { ok: ['green', '✓'], warning: ['yellow', '!'], problem: ['red', '✗'] } as const;
const MAX_PORT = 65_535;

export async function run(context: CommandContext): Promise<number> {
  const { args, terminal, dataDirectory } = context;
  const port = args.number('port', 1, MAX_PORT) ?? DEFAULTS.port;
  // First of all: what it mends needs no other advice.
  const privacy = checkPrivacy(dataDirectory, args.has('mend'), context);
  const checks: Check[] = [
    checkNode(process.versions.node),
    await checkSqlite(),
    await checkEdge(),
    ...checkDataDirectory(dataDirectory, context),
    ...privacy,
    checkDisk(dataDirectory, context),
    checkProfile(context),
    ...(await checkDaemon(dataDirectory, context)),
    ...(await checkSessions(dataDirectory)),
    await checkPort(port, dataDirectory),
  ];
  const problems = checks.filter(({ state }) => state === 'problem').length;
  terminal.answer({ ok: problems === 0, checks }, () => {
    const { style } = terminal;
    for (const { state, name, finding, fix } of checks) {
      const [colour, mark] = MARKS[state];
      terminal.line(`${style(colour, mark)} ${style('bold', name.padEnd(14))} ${finding}`);
      if (fix !== undefined) terminal.line(`${' '.repeat(17)}${style('dim', `→ ${fix}`)}`);
    }
    const warnings = checks.filter(({ state }) => state === 'warning').length;
    const summary =
      problems > 0 ? 'Something needs to be fixed.' : warnings > 0 ? 'It works; see the warnings.' : 'All is well.';
    terminal.lines(['', summary]);
  });
  return problems === 0 ? EXIT.ok : EXIT.failed;
}
