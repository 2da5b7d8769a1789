/** Makes an app: from a template, blank, or from an archive. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { TemplateRow } from '../../protocol/answers.ts';
import type { NewWebhook } from '../../protocol/automations/automation.ts';
import { go, hrefOf } from '../address.ts';
import { type GatewayError, get, path, post } from '../gateway.ts';
import { useGateway } from '../gateway-state.tsx';
import { usePolled } from '../polled.ts';
import { keeping, showMinted } from '../ui/minted.tsx';
import { notify } from '../ui/notice.tsx';
import { Button, Dialog, Field, Loading, Problem, Tile } from '../ui/parts.tsx';
import { plural } from '../words.ts';

export type Way = 'template' | 'blank' | 'import';
const WAYS: [Way, string][] = [
  ['template', 'From a template'],
  ['blank', 'Blank'],
  ['import', 'From an archive'],
];
/** What of a request belongs to which field. */
const APP_ID = '[a-z0-9][a-z0-9_\\-]{0,62}';

/** What the gateway answers; `webhooks` have secrets that no other answer has. */
type Made = { id?: string; app?: string; webhooks: NewWebhook[] };

type NewAppProps = {
  onClose: () => void;
  /** Which form is open at first. */
  first?: Way;
  /** The template whose button gets the focus. */
  template?: string | undefined;
};

export function NewApp({ onClose, first = 'template', template }: NewAppProps) {
  const { reload } = useGateway();
  const [way, setWay] = useState<Way>(first);
  const made = ({ id, app, webhooks }: Made) => {
    reload();
    const made = id ?? app ?? '';
    showMinted(made, webhooks);
    notify(`${made} is live.`);
    onClose();
    go(hrefOf(['apps', made]));
  };
  return (
    <Dialog title="New app" wide onClose={onClose}>
      <fieldset class="choice" aria-label="How to make it">
        {WAYS.map(([id, text]) => (
          <button key={id} type="button" aria-pressed={way === id} onClick={() => setWay(id)}>
            {text}
          </button>
        ))}
      </fieldset>
      {way === 'template' && <FromTemplate wanted={template} onMade={made} />}
      {way === 'blank' && <Blank onMade={made} />}
      {way === 'import' && <FromArchive onMade={made} />}
    </Dialog>
  );
}

/** One request at a time; what it was refused for is shown at its field, or below. */
function useMaking(onMade: (made: Made) => void) {
  const [isWaiting, setWaiting] = useState(false);
  const [problem, setProblem] = useState<GatewayError>();
  const make = async (work: () => Promise<Made>) => {
    if (isWaiting) return;
    setWaiting(true);
    setProblem(undefined);
    try {
      onMade(await keeping(work()));
    } catch (error) {
      setProblem(error as GatewayError);
    }
    setWaiting(false);
  };
  return { make, isWaiting, problem };
}

function FromTemplate({ wanted, onMade }: { wanted: string | undefined; onMade: (made: Made) => void }) {
  const {
    value: templates,
    error,
    reload,
  } = usePolled((signal) => get<TemplateRow[]>('/svc/_templates', signal), 'templates', 0);
  const { make, isWaiting, problem } = useMaking(onMade);
  const list = useRef<HTMLUListElement>(null);
  const isRead = templates !== undefined;
  useEffect(() => {
    if (wanted !== undefined)
      list.current?.querySelector<HTMLElement>(`[data-id="${CSS.escape(wanted)}"] button`)?.focus();
  }, [isRead]);
  if (!templates) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  return (
    <>
      <Problem error={problem} />
      <ul ref={list} class="templates" aria-label="Templates">
        {templates.map((template) => (
          <li key={template.id} class="card" data-id={template.id}>
            {template.source === 'bundled' ? (
              <img
                src={path`/svc/_console/preview-${template.id}.png`}
                alt=""
                loading="lazy"
                width="480"
                height="300"
              />
            ) : (
              <Tile id={template.id} name={template.name} />
            )}
            <h3>{template.name}</h3>
            <p>{template.description}</p>
            <p class="hint">{contents(template)}</p>
            <Button
              kind="primary"
              class="small"
              disabled={isWaiting}
              onClick={() => void make(() => post('/svc/_apps/_clone', { templateId: template.id, publish: true }))}
            >
              Use {template.name}
            </Button>
          </li>
        ))}
      </ul>
    </>
  );
}

function contents({ queries, actions, automations, source }: TemplateRow): string {
  const parts = [plural(queries, 'query'), plural(actions, 'action')];
  if (automations > 0) parts.push(plural(automations, 'automation'));
  if (source === 'remote') parts.push('from the catalog');
  return parts.join(' · ');
}

/** An id made of a name: what people call it, in letters that addresses have. */
const idOf = (name: string): string =>
  name
    .normalize('NFKD')
    .replace(/\p{Mark}+/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 63);

/** Ids that a host name may have; a page of another id is at a name that only the gateway knows. */
const HOST_LABEL = /^[a-z0-9](?:-?[a-z0-9])*$/;

/** Says where the page of an app with this id will be: at an address of its own, or below that of the host's server. */
function usePageHint(): (id: string) => string | undefined {
  const { consoleAddress, hasSessions } = useGateway();
  const { protocol, host } = new URL(consoleAddress);
  return (id) => {
    if (!HOST_LABEL.test(id)) return undefined;
    return `Its page will be at ${hasSessions ? `${protocol}//${id}.${host}/` : `${location.origin}/svc/${id}/`}`;
  };
}

function Blank({ onMade }: { onMade: (made: Made) => void }) {
  const { make, isWaiting, problem } = useMaking(onMade);
  const [name, setName] = useState('');
  const [id, setId] = useState<string>();
  const shownId = id ?? idOf(name);
  const hintOf = usePageHint();
  const submit = (event: Event) => {
    event.preventDefault();
    void make(() => post('/svc/_apps', { id: shownId, name: name.trim(), publish: true }));
  };
  return (
    <form class="stack" onSubmit={submit}>
      <Field label="Name">
        <input value={name} required maxLength={200} onInput={({ currentTarget }) => setName(currentTarget.value)} />
      </Field>
      <Field label="Id" hint={hintOf(shownId)} problem={problem?.path === 'id' ? problem.message : undefined}>
        <input
          class="mono"
          value={shownId}
          required
          pattern={APP_ID}
          title="Small letters, digits, hyphens and underscores, beginning with a letter or digit"
          onInput={({ currentTarget }) => setId(currentTarget.value)}
        />
      </Field>
      {problem?.path !== 'id' && <Problem error={problem} />}
      <div class="line end">
        <Button type="submit" kind="primary" disabled={isWaiting}>
          Make it
        </Button>
      </div>
    </form>
  );
}

function FromArchive({ onMade }: { onMade: (made: Made) => void }) {
  const { make, isWaiting, problem } = useMaking(onMade);
  const [file, setFile] = useState<File>();
  const [id, setId] = useState<string>();
  const shownId = id ?? idOf(file?.name.replace(/\.(?:tar\.gz|tgz)$/, '') ?? '');
  const submit = (event: Event) => {
    event.preventDefault();
    if (file) void make(() => post(path`/svc/_apps/${shownId}/upload`, file));
  };
  return (
    <form class="stack" onSubmit={submit}>
      <Field
        label="Archive"
        hint={
          <>
            A gzipped tar archive of an app's folder: <code>tar -czf app.tar.gz -C app .</code>
          </>
        }
      >
        <input
          type="file"
          accept=".tgz,.gz,application/gzip"
          required
          onChange={({ currentTarget }) => setFile(currentTarget.files?.[0])}
        />
      </Field>
      <Field label="Id" hint="An app of this id gets the archive as its new version.">
        <input
          class="mono"
          value={shownId}
          required
          pattern={APP_ID}
          onInput={({ currentTarget }) => setId(currentTarget.value)}
        />
      </Field>
      <Problem error={problem} />
      <div class="line end">
        <Button type="submit" kind="primary" disabled={isWaiting}>
          Upload
        </Button>
      </div>
    </form>
  );
}
