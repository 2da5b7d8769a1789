/** Makes an app: from a template, blank, from an archive, or from the address of one. What was typed stays when it is refused. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { TemplateRow } from '../../protocol/answer-types.ts';
import { addressOf, type CallOptions } from '../../protocol/http/client.ts';
import { freeName } from '../../protocol/ids.ts';
import type { Received } from '../../protocol/routes/api.ts';
import { go, hrefOf } from '../address.ts';
import { gateway } from '../gateway.ts';
import { useGateway } from '../gateway-state.tsx';
import { usePolled } from '../polled.ts';
import { keeping, showMinted } from '../ui/minted.tsx';
import { notify } from '../ui/notice.tsx';
import { Button, Dialog, Field, Loading, Problem, Tile } from '../ui/parts.tsx';
import { plural } from '../words.ts';
import { useWork } from '../work.ts';
import { APP_ID, idOf, sourceName } from './app-names.ts';

export type Way = 'template' | 'blank' | 'import' | 'address';
const WAYS: [Way, string][] = [
  ['template', 'From a template'],
  ['blank', 'Blank'],
  ['import', 'From a file'],
  ['address', 'From an address'],
];
const ZIP = /\.zip$/i;

/** What the gateway answers; `webhooks` have secrets that no other answer has. */
type Made = Received<'POST /svc/_apps' | 'POST /svc/_apps/_import'>;

/** What was typed or chosen; `name` and `id` are undefined until somebody typed them. */
type Typed = { name?: string; id?: string; file?: File; url: string };

type NewAppProps = {
  onClose: () => void;
  /** Which form is open at first. */
  first?: Way;
  /** The template whose button gets the focus. */
  template?: string | undefined;
};

export function NewApp({ onClose, first = 'template', template: wanted }: NewAppProps) {
  const [way, setWay] = useState<Way>(first);
  const [template, setTemplate] = useState<TemplateRow>();
  const [typed, setTyped] = useState<Typed>({ url: '' });
  const isChoosing = way === 'template' && template === undefined;
  return (
    <Dialog title="New app" wide onClose={onClose}>
      <fieldset class="choice" aria-label="How to make it">
        {WAYS.map(([id, text]) => (
          <button key={id} type="button" aria-pressed={way === id} onClick={() => setWay(id)}>
            {text}
          </button>
        ))}
      </fieldset>
      {isChoosing ? (
        <Templates wanted={wanted} onChosen={setTemplate} />
      ) : (
        <NewForm
          key={way}
          way={way}
          template={way === 'template' ? template : undefined}
          typed={typed}
          onTyped={(change) => setTyped((last) => ({ ...last, ...change }))}
          onBack={() => setTemplate(undefined)}
          onMade={onClose}
        />
      )}
    </Dialog>
  );
}

type TemplatesProps = { wanted: string | undefined; onChosen: (template: TemplateRow) => void };

function Templates({ wanted, onChosen }: TemplatesProps) {
  const {
    value: templates,
    error,
    reload,
  } = usePolled((signal) => gateway.call('GET /svc/_templates', {}, { signal }), 'templates', 0);
  const list = useRef<HTMLUListElement>(null);
  const isRead = templates !== undefined;
  useEffect(() => {
    if (wanted !== undefined)
      list.current?.querySelector<HTMLElement>(`[data-id="${CSS.escape(wanted)}"] button`)?.focus();
  }, [isRead]);
  if (!templates) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  return (
    <ul ref={list} class="templates" aria-label="Templates">
      {templates.map((template) => (
        <li key={template.id} class="card" data-id={template.id}>
          <Picture template={template} />
          <h3>{template.name}</h3>
          <p>{template.description}</p>
          <p class="hint">{contents(template)}</p>
          <Button kind="primary" class="small" onClick={() => onChosen(template)}>
            Use {template.name}
          </Button>
        </li>
      ))}
    </ul>
  );
}

function Picture({ template: { id, name, source } }: { template: TemplateRow }) {
  if (source !== 'bundled') return <Tile id={id} name={name} />;
  const src = addressOf('GET /svc/_console/:part', { params: { part: `preview-${id}.png` } });
  return <img src={src} alt="" loading="lazy" width="480" height="300" />;
}

function contents({ queries, actions, automations, source }: TemplateRow): string {
  const parts = [plural(queries, 'query'), plural(actions, 'action')];
  if (automations > 0) parts.push(plural(automations, 'automation'));
  if (source === 'remote') parts.push('from the catalog');
  return parts.join(' · ');
}

type NewFormProps = {
  way: Way;
  template: TemplateRow | undefined;
  typed: Typed;
  onTyped: (change: Partial<Typed>) => void;
  onBack: () => void;
  onMade: () => void;
};

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

function NewForm({ way, template, typed, onTyped, onBack, onMade }: NewFormProps) {
  const { apps = [], reload } = useGateway();
  const { isBusy, error, run } = useWork();
  const hintOf = usePageHint();
  const [done, setDone] = useState<number>();
  const nameField = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (template !== undefined) nameField.current?.select();
  }, [template]);
  const { file, url } = typed;
  /** Of an archive the name may stay what the archive says. */
  const isOptional = way === 'import' || way === 'address';
  const name = typed.name ?? (template && freeName(template.name, (one) => apps.some((app) => app.name === one))) ?? '';
  const source = way === 'import' ? sourceName(file?.name ?? '') : way === 'address' ? sourceName(url) : '';
  const id = typed.id ?? idOf(name.trim() || source);
  const isTaken = error?.code === 'CONFLICT' && way === 'import' && apps.some((app) => app.id === id);

  const make = (work: () => Promise<Made>) =>
    run(async () => {
      setDone(undefined);
      const answer = await keeping(work());
      const made = 'app' in answer ? answer.app : answer.id;
      reload();
      showMinted(made, answer.webhooks);
      notify(`${made} is live.`);
      onMade();
      go(hrefOf(['apps', made]));
    });
  /** Calls `work` with the chosen file, and with what goes along with it. */
  const withFile = async (work: (file: File, options: CallOptions) => Promise<Made>) => {
    if (file === undefined) throw new Error('Choose a file.');
    const type = ZIP.test(file.name) ? 'application/zip' : 'application/gzip';
    return await work(file, { headers: { 'content-type': type }, onSent: (sent) => setDone(sent / file.size) });
  };
  const upload = () =>
    withFile((body, options) => gateway.call('POST /svc/_apps/:id/upload', { params: { id }, body }, options));
  const called = name.trim() === '' ? {} : { name: name.trim() };
  const works: Record<Way, () => Promise<Made>> = {
    template: () => {
      const body = { templateId: template?.id ?? '', id, ...called, publish: true };
      return gateway.call('POST /svc/_apps/_clone', { body });
    },
    blank: () => gateway.call('POST /svc/_apps', { body: { id, ...called, publish: true } }),
    import: () =>
      withFile((body, options) => gateway.call('POST /svc/_apps/_import', { query: { id, ...called }, body }, options)),
    address: () => gateway.call('POST /svc/_apps/_fetch', { body: { url: url.trim(), id, ...called } }),
  };
  const problemAt = (field: string) => (error?.path === field ? error.message : undefined);
  const isAtField = error?.path === 'id' || error?.path === 'name' || (error?.path === 'url' && way === 'address');
  return (
    <form
      class="stack new-form"
      onSubmit={(event) => {
        event.preventDefault();
        void make(works[way]);
      }}
    >
      {template && (
        <div class="chosen-template">
          <Picture template={template} />
          <div>
            <h3>{template.name}</h3>
            <p class="hint">{template.description}</p>
            <Button kind="link" onClick={onBack}>
              Another template
            </Button>
          </div>
        </div>
      )}
      <SourceField way={way} typed={typed} onTyped={onTyped} problem={problemAt('url')} />
      <Field label="Name" hint={isOptional ? 'Empty: as the app says.' : undefined} problem={problemAt('name')}>
        <input
          ref={nameField}
          value={name}
          required={!isOptional}
          maxLength={200}
          onInput={({ currentTarget }) => onTyped({ name: currentTarget.value })}
        />
      </Field>
      <Field label="Id" hint={hintOf(id)} problem={problemAt('id')}>
        <input
          class="mono"
          value={id}
          required
          pattern={APP_ID}
          title="Small letters, digits, hyphens and underscores, beginning with a letter or digit"
          onInput={({ currentTarget }) => onTyped({ id: currentTarget.value })}
        />
      </Field>
      {isTaken && (
        <p class="line">
          <Button disabled={isBusy} onClick={() => void make(upload)}>
            Make it the next version of {id}
          </Button>
        </p>
      )}
      {!isAtField && <Problem error={error} />}
      <div class="line end">
        {isBusy && <Progress way={way} done={done} />}
        <Button type="submit" kind="primary" disabled={isBusy}>
          Make it
        </Button>
      </div>
    </form>
  );
}

type SourceProps = Pick<NewFormProps, 'way' | 'typed' | 'onTyped'> & { problem: string | undefined };

/** The archive: a file, or an address. */
function SourceField({ way, typed: { file, url }, onTyped, problem }: SourceProps) {
  return (
    <>
      {way === 'import' && (
        <Field
          label="File"
          hint={
            <>
              An app's folder as <code>.zip</code> or <code>.tar.gz</code>.{file && ` Chosen: ${file.name}`}
            </>
          }
        >
          <input
            type="file"
            accept=".zip,.tgz,.gz,application/zip,application/gzip"
            required={file === undefined}
            onChange={({ currentTarget }) => {
              const [chosen] = currentTarget.files ?? [];
              if (chosen) onTyped({ file: chosen });
            }}
          />
        </Field>
      )}
      {way === 'address' && (
        <Field
          label="Address"
          hint="Of an archive of an app, .zip or .tar.gz. The gateway fetches it."
          problem={problem}
        >
          <input
            type="url"
            required
            placeholder="https://example.com/notes.zip"
            value={url}
            onInput={({ currentTarget }) => onTyped({ url: currentTarget.value })}
          />
        </Field>
      )}
    </>
  );
}

/** `done` is the part of a file that is sent; after that the gateway works, and does not tell how far it is. */
function Progress({ way, done }: { way: Way; done: number | undefined }) {
  const isSending = done !== undefined && done < 1;
  const doing = isSending
    ? `Sending, ${Math.round(done * 100)} %`
    : way === 'address'
      ? 'Fetching and checking…'
      : 'Making it…';
  return (
    <span class="line making" role="status">
      <progress aria-label="Progress" {...(isSending && { value: done, max: 1 })} />
      {doing}
    </span>
  );
}
