/** An app's queries and actions: what they are for, a form to run one, what it answered, and the same call for programs. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ActionDefinition, QueryDefinition } from '../../../protocol/manifest.ts';
import { hrefOf } from '../../address.ts';
import { useGateway } from '../../gateway-state.tsx';
import { Button, Card, Confirm, CopyButton, Empty, State } from '../../ui/parts.tsx';
import { ago, took } from '../../words.ts';
import { type AppDetail, type AppViewProps, toolsIn } from '../views.ts';
import { type Past, readHistory, remember, toolAddress } from './call-history.ts';
import { InputForm, type InputFormProps, JsonField } from './fields.tsx';
import { initialOf, shapeOf } from './input-shape.ts';
import { Result } from './result.tsx';
import { asCommand, asCurl, asMcp, callTool, issuesOf, type Kind, type Outcome, type ToolCall } from './tool-call.ts';

type Tool = { kind: Kind; definition: QueryDefinition | ActionDefinition };

/** Inputs by tool and schema: they are there again after a look at another view. */
const filledIn = new Map<string, unknown>();

/** From this many tools on, the list has a search field. */
const SOUGHT_FROM = 12;

export function ToolsView({ app, address }: AppViewProps) {
  const [sought, setSought] = useState('');
  const tools = toolsOf(app);
  if (tools.length === 0) {
    return (
      <Empty title={app.activeVersion === null ? 'No version is live' : 'This app has no queries and actions'}>
        <p class="hint">They are listed in app.json, and their handlers are in the folders queries and actions.</p>
      </Empty>
    );
  }
  const named = (['query', 'action'] as const).find((kind) => address.query.has(kind));
  const current = named
    ? tools.find(({ kind, definition }) => kind === named && definition.name === address.query.get(named))
    : tools[0];
  const shown = tools.filter(({ definition: { name, description = '' } }) =>
    `${name} ${description}`.toLowerCase().includes(sought.trim().toLowerCase()),
  );
  const list = (kind: Kind, title: string) => {
    const ones = shown.filter((tool) => tool.kind === kind);
    if (ones.length === 0) return null;
    return (
      <>
        <h2 class="tools-kind">{title}</h2>
        <ul>
          {ones.map(({ definition: { name, description } }) => (
            <li key={name}>
              <a
                href={hrefOf(['apps', app.id, 'tools'], toolAddress(kind, name))}
                aria-current={current?.kind === kind && current.definition.name === name ? 'true' : undefined}
              >
                <b>{name}</b>
                {description && <span class="hint">{description}</span>}
              </a>
            </li>
          ))}
        </ul>
      </>
    );
  };
  return (
    <div class="tools">
      <nav class="tools-list" aria-label="Tools">
        {tools.length >= SOUGHT_FROM && (
          <input
            type="search"
            aria-label="Find a tool"
            placeholder="Find a tool"
            value={sought}
            onInput={({ currentTarget }) => setSought(currentTarget.value)}
          />
        )}
        {list('query', 'Queries')}
        {list('action', 'Actions')}
        {shown.length === 0 && <p class="hint">Nothing matches.</p>}
      </nav>
      {current ? (
        <ToolCard key={`${current.kind} ${current.definition.name}`} app={app} tool={current} />
      ) : (
        <Empty title="The app has no such tool">
          <p class="hint">Another version may have had it.</p>
        </Empty>
      )}
    </div>
  );
}

function toolsOf(app: AppDetail): Tool[] {
  const { queries, actions } = toolsIn(app);
  return [
    ...queries.map((definition): Tool => ({ kind: 'query', definition })),
    ...actions.map((definition): Tool => ({ kind: 'action', definition })),
  ];
}

function ToolCard({ app, tool: { kind, definition } }: { app: AppDetail; tool: Tool }) {
  const { name, description, input: schema } = definition;
  const shape = shapeOf(schema);
  const place = JSON.stringify([app.id, kind, name, schema]);
  const [input, setInput] = useState<unknown>(() => filledIn.get(place) ?? initialOf(shape, true) ?? {});
  filledIn.set(place, input);
  /** Counts what replaces the input as a whole: fields that keep a text of their own begin anew. */
  const [filled, setFilled] = useState(0);
  const [isJson, setJson] = useState(false);
  const [outcome, setOutcome] = useState<Outcome>();
  const [isRunning, setRunning] = useState(false);
  /** The call that is confirmed before it runs. */
  const [asking, setAsking] = useState<ToolCall>();
  const [history, setHistory] = useState(() => readHistory(app.id));
  const shown = useRef(true);
  useEffect(() => {
    shown.current = true;
    return () => {
      shown.current = false;
    };
  }, []);

  const action = kind === 'action' ? (definition as ActionDefinition) : undefined;
  const call: ToolCall = { app: app.id, kind, tool: name, input: input ?? {} };
  const run = async (what: ToolCall = call) => {
    if (isRunning) return;
    setRunning(true);
    const found = await callTool(what);
    remember({ ...what, at: Date.now(), status: found.status, ms: found.ms });
    if (!shown.current) return;
    setRunning(false);
    setOutcome(found);
    setHistory(readHistory(app.id));
  };
  const submit = (form: HTMLFormElement) => {
    const broken = form.querySelector<HTMLTextAreaElement>('textarea:invalid');
    if (broken) return broken.focus();
    if (action?.confirmation === 'required') setAsking(call);
    else void run();
  };
  const fill = (past: Past) => {
    setInput(past.input);
    setFilled((count) => count + 1);
    setOutcome(undefined);
  };
  const again = (past: Past) => {
    fill(past);
    const { app: id, input: before } = past;
    const repeated: ToolCall = { app: id, kind, tool: name, input: before };
    if (kind === 'action') setAsking(repeated);
    else void run(repeated);
  };
  const issues = outcome ? issuesOf(outcome) : new Map<string, string>();
  const isFree = shape.kind === 'json';
  const isPlain = shape.kind === 'object' && shape.members.length === 0;
  const mine = history.filter((past) => past.kind === kind && past.tool === name);
  return (
    <div class="tool-view">
      <Card>
        <header class="card-head">
          <h2>{name}</h2>
          <State
            state={kind === 'query' ? 'ok' : 'waiting'}
            text={kind === 'query' ? 'query: reads' : writesOf(action as ActionDefinition)}
          />
        </header>
        {description && <p>{description}</p>}
        <form
          class="stack tool-form"
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            submit(event.currentTarget);
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event.currentTarget);
          }}
        >
          <Input
            key={filled}
            {...{ shape, input, issues }}
            asJson={isFree || isJson}
            hint={schema === undefined ? 'The app does not say what it takes: any object.' : undefined}
            onChange={setInput}
          />
          <div class="line">
            <Button kind="primary" type="submit" disabled={isRunning}>
              {isRunning ? 'Running…' : kind === 'query' ? 'Run query' : 'Run action'}
            </Button>
            {!isFree && !isPlain && (
              <Button
                aria-pressed={isJson}
                onClick={() => {
                  setJson(!isJson);
                  setFilled((count) => count + 1);
                }}
              >
                {isJson ? 'Edit as form' : 'Edit as JSON'}
              </Button>
            )}
            <CopyAs app={app} call={call} />
          </div>
        </form>
      </Card>
      {outcome && (
        <Card>
          <Result app={app.id} kind={kind} outcome={outcome} />
        </Card>
      )}
      {mine.length > 0 && <History past={mine} onFill={fill} onRun={again} />}
      {asking && (
        <Confirm
          title={`Run ${name}?`}
          verb={`Run ${name}`}
          onDone={() => run(asking)}
          onClose={() => setAsking(undefined)}
        >
          <p>
            {action?.confirmation === 'required'
              ? 'The app asks for a confirmation before this action.'
              : 'This action ran before. Running it again may write again.'}
          </p>
          <pre>{JSON.stringify(asking.input, null, 2)}</pre>
        </Confirm>
      )}
    </div>
  );
}

function Input({ asJson, hint, ...form }: InputFormProps & { asJson: boolean; hint: string | undefined }) {
  const { shape, input, issues, onChange } = form;
  if (shape.kind === 'object' && shape.members.length === 0) return <p class="hint">It takes no input.</p>;
  if (!asJson) return <InputForm {...form} />;
  return (
    <div class="field">
      <span class="label">Input as JSON</span>
      <JsonField aria-label="Input as JSON" value={input} onChange={onChange} rows={shape.kind === 'json' ? 4 : 10} />
      {hint && <span class="hint">{hint}</span>}
      {[...issues].map(([path, message]) => (
        <span key={path} class="problem" role="alert">
          {path && <code>{path}</code>} {message}
        </span>
      ))}
    </div>
  );
}

function writesOf({ writes = [] }: ActionDefinition): string {
  return writes.length > 0 ? `action: writes ${writes.join(', ')}` : 'action: may write';
}

const FORMATS = { curl: 'curl', svc: 'svc', mcp: 'MCP' } as const;

function CopyAs({ app, call }: { app: AppDetail; call: ToolCall }) {
  const { system } = useGateway();
  const [format, setFormat] = useState<keyof typeof FORMATS | ''>('');
  const { queries, actions } = toolsIn(app);
  const isTwice = [queries, actions].every((list) => list.some(({ name }) => name === call.tool));
  // Programs use the address where the gateway listens: not every resolver knows names below localhost.
  const origin = location.hostname.endsWith('localhost') ? (system?.url ?? location.origin) : location.origin;
  const text =
    format === 'curl'
      ? asCurl(call, origin)
      : format === 'svc'
        ? asCommand(call)
        : format === 'mcp'
          ? asMcp(call, isTwice)
          : '';
  return (
    <>
      <label class="line copy-as">
        <span class="hint">Copy as</span>
        <select value={format} onChange={({ currentTarget }) => setFormat(currentTarget.value as typeof format)}>
          <option value="">–</option>
          {Object.entries(FORMATS).map(([id, label]) => (
            <option key={id} value={id}>
              {label}
            </option>
          ))}
        </select>
      </label>
      {format !== '' && (
        <div class="copied">
          <pre tabindex={0}>{text}</pre>
          <CopyButton text={text} />
          {format === 'mcp' && (
            <span class="hint">
              A message to <code>/svc/{call.app}/_mcp</code>
            </span>
          )}
        </div>
      )}
    </>
  );
}

type HistoryProps = { past: readonly Past[]; onFill: (past: Past) => void; onRun: (past: Past) => void };

function History({ past, onFill, onRun }: HistoryProps) {
  return (
    <Card title="Calls of this browser session">
      <ul class="rows" aria-label="Earlier calls">
        {past.slice(0, 10).map((one) => (
          <li key={one.at}>
            <State state={one.status >= 400 || one.status === 0 ? 'error' : 'ok'} text={String(one.status || 'none')} />
            <code class="past-input">{JSON.stringify(one.input)}</code>
            <span class="hint">
              {took(one.ms)}, {ago(one.at)}
            </span>
            <span class="row-acts">
              <Button class="small" onClick={() => onFill(one)}>
                Fill in
              </Button>
              <Button class="small" onClick={() => onRun(one)}>
                Run again
              </Button>
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}
