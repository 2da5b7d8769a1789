/** `svc agents`: the agents that the gateway found, their models, and how to get or sign in to one. */
import { type AgentModel, INSTALL_CLAUDE_CODE } from '../../../protocol/agents/agents.ts';
import type { Received } from '../../../protocol/routes/api.ts';
import type { CommandContext } from '../../command.ts';
import type { Terminal } from '../../terminal/terminal.ts';

/** `<e>Available`, `<e>Version`, `<e>Models`, … for each engine (specification, "Catalog of runners"). */
type AgentStatus = Received<'GET /svc/_agents/status'>;

const SHOWN_MODELS = 12;
/** How to sign in on the gateway's machine, by the kind of an agent. */
const SIGN_IN: Record<string, string> = {
  codex: 'codex login',
  'claude-code': 'claude, then /login',
};
const INSTALL = [
  'Codex: npm install -g @openai/codex, then codex login',
  `Claude Code: ${INSTALL_CLAUDE_CODE}, then claude, then /login`,
  'Any agent that speaks ACP, or a model server: "runners" in the configuration, see docs/agents.md',
];

export async function agents({ args, terminal, connect }: CommandContext): Promise<void> {
  const ask = (refresh: '1' | undefined) => connect().call('GET /svc/_agents/status', { query: { refresh } });
  let status = await ask(args.has('refresh') ? '1' : undefined);
  // After a start: whether somebody is signed in is known with the models.
  if (isBeingAsked(status)) status = await ask('1');
  terminal.answer(status, () => {
    const names = Object.keys(status).flatMap((key) => /^(.+)Available$/.exec(key)?.[1] ?? []);
    for (const name of names) draw(terminal, name, status);
    if (names.some((name) => status[`${name}Available`] === true)) return;
    terminal.note('No agent was found. On the machine of the gateway, get one of these:');
    for (const line of INSTALL) terminal.hint(`  ${line}`);
  });
}

/** Whether the gateway has not yet heard from an agent that is there. */
function isBeingAsked(status: AgentStatus): boolean {
  return Object.entries(status).some(([key, value]) => {
    const name = /^(.+)ModelsStatus$/.exec(key)?.[1];
    return status[`${name}Available`] === true && (value === 'cold' || value === 'loading');
  });
}

function draw(terminal: Terminal, name: string, status: AgentStatus): void {
  const { style } = terminal;
  const isThere = status[`${name}Available`] === true;
  const wrong = whatIsWrong(name, status);
  const version = status[`${name}Version`] ?? null;
  // A program that cannot be used as it is says its version all the same.
  const isMissing = !isThere && version === null;
  const sign = isMissing ? style('dim', '–') : wrong === null ? style('green', '✓') : style('yellow', '!');
  terminal.line(`${sign} ${style('bold', name)} ${isMissing ? style('dim', 'not found') : (version ?? '')}`.trimEnd());
  if (wrong !== null) terminal.line(`  ${wrong}`);
  if (!isThere) return;
  drawModels(terminal, status[`${name}Models`] ?? [], wrong !== null);
  if (status[`${name}EnforcesData`] === false)
    terminal.line(style('dim', '  For the console and tokens for "all" only: it does not enforce mode "data"'));
}

function drawModels(terminal: Terminal, models: readonly AgentModel[], isWrong: boolean): void {
  const { style } = terminal;
  for (const { id, name: title, isDefault } of models.slice(0, SHOWN_MODELS)) {
    const more = [title === id ? '' : (title ?? ''), isDefault ? 'default' : '']
      .filter((part) => part !== '')
      .join(', ');
    terminal.line(`  ${id}${more && `  ${style('dim', more)}`}`);
  }
  if (models.length > SHOWN_MODELS)
    terminal.line(style('dim', `  ${models.length - SHOWN_MODELS} more: svc agents --json`));
  if (models.length === 0 && !isWrong)
    terminal.line(style('dim', '  Its models are not known yet: svc agents --refresh'));
}

/** Null without a known problem. */
function whatIsWrong(name: string, status: AgentStatus): string | null {
  const isOut = status[`${name}Available`] === true && status[`${name}SignedIn`] === false;
  if (!isOut) return status[`${name}Detail`] ?? null;
  const kind = status[`${name}Kind`] ?? '';
  return `Not signed in. On the gateway's machine: ${SIGN_IN[kind] ?? 'see its own documentation'}`;
}
