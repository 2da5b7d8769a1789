/** A conversation with an agent beside the page of its app: windows, messages, turns that are followed, and the draft that they change. */
import type { RefObject } from 'preact';
import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import { route } from '../../../protocol/http/addresses.ts';
import { go, hrefOf } from '../../address.ts';
import { GatewayError, SIGNED_IN } from '../../gateway.ts';
import { type GatewayState, isOwn, manages, useGateway } from '../../gateway-state.tsx';
import { Minted } from '../../ui/minted.tsx';
import { Choice, PageFrame, Pressed } from '../../ui/page-frame.tsx';
import { Button, Confirm, Dialog, Loading } from '../../ui/parts.tsx';
import { Secrets } from '../settings/secrets.tsx';
import type { AppViewProps } from '../views.ts';
import { useAttachments } from './attachments.tsx';
import { Composer, unsent } from './composer.tsx';
import { type Conversation, type ConversationName, Conversations, type Kind, type Mode } from './conversations.ts';
import { DraftBar } from './draft.tsx';
import { useModels } from './models.tsx';
import { Thread } from './thread.ts';
import { TurnItem } from './turn-item.tsx';
import { WhatNext } from './what-next.tsx';

/** The option that lists earlier conversations. */
const EARLIER = 'earlier';

const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(6))].map((byte) => byte.toString(16).padStart(2, '0')).join('');

const hrefTo = (app: string, { kind, id }: ConversationName) => hrefOf(['apps', app, 'chat'], { [kind]: id });

/** The conversation that the address names, or null. */
function nameIn(query: URLSearchParams): ConversationName | null {
  for (const kind of ['window', 'conversation'] satisfies Kind[]) {
    const id = query.get(kind);
    if (id !== null && /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(id)) return { kind, id };
  }
  return null;
}

/** The one that who is signed in used last, or a new one. */
function latest({ all }: Conversations, state: GatewayState): ConversationName {
  return all.find(({ by }) => isOwn(state, by)) ?? { kind: 'window', id: newId() };
}

/** Reads the list of conversations first. An address that names none then gets the latest one of who is signed in. */
export function ChatView(props: AppViewProps) {
  const { app, address } = props;
  const state = useGateway();
  const conversation = nameIn(address.query);
  /** The id of one whose kind is not known, as a run names it. */
  const sought = address.query.get('talk');
  const [conversations, setConversations] = useState<Conversations>();
  const [problem, setProblem] = useState<Error>();
  useEffect(() => {
    const read = async () => {
      setProblem(undefined);
      const list = new Conversations(app.id, app.backend === 'git');
      try {
        await list.read();
        const isListed = () =>
          list.all.some(({ kind, id }) =>
            conversation ? kind === conversation.kind && id === conversation.id : id === sought,
          );
        if (conversation || sought) while (!isListed() && list.hasMore) await list.readMore();
        setConversations(list);
      } catch (error) {
        setProblem(error as Error);
      }
    };
    void read();
    addEventListener(SIGNED_IN, read);
    return () => removeEventListener(SIGNED_IN, read);
  }, [app.id, app.backend]);
  useEffect(() => {
    if (conversations && !conversation) {
      const named = conversations.all.find(({ id }) => id === sought) ?? latest(conversations, state);
      go(hrefTo(app.id, named), { replace: true });
    }
  });
  if (problem)
    return (
      <p class="problem" role="alert">
        {problem.message}
      </p>
    );
  return conversations && conversation ? (
    <Chat {...props} conversations={conversations} conversation={conversation} />
  ) : (
    <Loading />
  );
}

/** `name` is that of the conversation, `workspace` of the draft it works on, null without one. `side` is the version that is shown. */
type Read = { name: string; workspace: string | null; side: 'draft' | 'live' };
type ChatProps = AppViewProps & { conversations: Conversations; conversation: ConversationName };

function Chat({ app, conversations, conversation }: ChatProps) {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const drawn = () => draw(undefined);
  const state = useGateway();
  const isManaged = manages(state, app);
  const hasCode = app.backend === 'git';
  const known = conversations.find(conversation);
  const [freshMode, setFreshMode] = useState<Mode>(conversation.kind === 'conversation' ? 'full' : 'data');
  const mode: Mode = known?.mode ?? freshMode;
  const [thread, setThread] = useState<Thread>();
  const [problem, complain] = useState<Error | null>(null);
  /** The conversation that was read last, with the workspace of its draft. Its page stays in the frame until the next one is read. */
  const [read, setRead] = useState<Read>();
  const [edits, countEdit] = useReducer((count: number) => count + 1, 0);
  const [shown, show] = useState<'talk' | 'page'>('talk');
  const [open, setOpen] = useState<'secrets' | 'delete' | null>(null);
  const log = useRef<HTMLElement>(null);
  const chosen = useRef<HTMLSelectElement>(null);
  const isAtEnd = useRef(true);
  const composer = useRef<HTMLTextAreaElement>(null);
  const focusMessage = () => composer.current?.focus();
  const attachments = useAttachments(app.id, conversation.kind === 'conversation', complain);
  /** A message that the gateway did not accept keeps its key, so that sending it again makes no second turn. */
  const key = useRef<string | null>(null);

  const attempt = async (work: () => Promise<void>) => {
    complain(null);
    try {
      await work();
    } catch (error) {
      complain(error as Error);
    }
  };
  const name = `${conversation.kind}/${conversation.id}`;
  const models = useModels(name, known);
  const workspace = read?.name === name ? read.workspace : null;
  const setSide = (side: Read['side']) => setRead((last) => last && { ...last, side });

  /** Shows the conversation. Choosing a mode for a new one changes its kind, and stays in the same conversation. */
  useEffect(() => {
    let isShown = true;
    const listener = {
      changed: drawn,
      workspace: (id: string) =>
        setRead((last) =>
          last?.name === name && last.workspace === id ? last : { name, workspace: id, side: 'draft' },
        ),
      edited: () => countEdit(undefined),
    };
    const hasNoDraft = () => {
      if (isShown) setRead((last) => (last?.name === name ? last : { name, workspace: null, side: 'live' }));
    };
    const made = new Thread(conversations, conversation, listener);
    complain(null);
    attachments.clear();
    key.current = null;
    isAtEnd.current = true;
    setThread(made);
    // Only a conversation about code can have a draft; the page of any other is known at once.
    if (known?.mode !== 'full') hasNoDraft();
    if (known) void attempt(() => made.open()).then(hasNoDraft);
    return () => {
      isShown = false;
      made.close();
    };
  }, [conversations, name]);

  useEffect(() => {
    if (matchMedia('(min-width: 60rem)').matches) focusMessage();
  }, []);

  const scrollDown = () => {
    const shownLog = log.current;
    if (shownLog && isAtEnd.current) shownLog.scrollTop = shownLog.scrollHeight;
  };
  const showEarlier = () =>
    attempt(async () => {
      const shownLog = log.current;
      if (!shownLog || !thread) return;
      // Keep the visible messages in place.
      isAtEnd.current = false;
      const below = shownLog.scrollHeight - shownLog.scrollTop;
      await thread.readEarlier();
      requestAnimationFrame(() => {
        shownLog.scrollTop = shownLog.scrollHeight - below;
        if (!thread.hasEarlier) shownLog.focus({ preventScroll: true });
      });
    });

  const begin = (next: ConversationName) => go(hrefTo(app.id, next), { replace: true });
  const choose = (value: string) => {
    const one = conversations.all.find((other) => other.key === value);
    if (one) return begin(one);
    void attempt(async () => {
      await conversations.readMore();
      drawn();
    });
  };
  const chooseMode = (wanted: Mode) => {
    setFreshMode(wanted);
    begin({ kind: wanted === 'full' && hasCode ? 'conversation' : 'window', id: conversation.id });
  };

  const send = async () => {
    const message = composer.current?.value ?? '';
    if (message.trim() === '' || !thread) return;
    complain(null);
    const files = await attachments.uploaded();
    if (files === null || !composer.current || message !== composer.current.value) return;
    composer.current.value = '';
    unsent.delete(app.id);
    isAtEnd.current = true;
    key.current ??= newId();
    try {
      await thread.send(mode, { message, ...models.chosen, attachments: files, idempotencyKey: key.current });
      key.current = null;
      attachments.clear();
    } catch (error) {
      // It was not accepted: put the message back, to be sent again.
      if (composer.current?.value === '') composer.current.value = message;
      unsent.set(app.id, message);
      if (error instanceof GatewayError && error.status === 401) complain(error);
    }
    await attempt(async () => {
      await conversations.read();
      drawn();
    });
  };

  /** The workspace of the draft whose page is shown; null while it is the live one. */
  const draft = read?.side === 'draft' ? read.workspace : null;
  const live = route`/svc/${app.id}/`;
  return (
    <div class="chat" data-side={shown}>
      <div class="chat-bar">
        {workspace !== null && (
          <Choice label="Which version of the page" class="chat-sides">
            <Pressed isPressed={draft !== null} onPress={() => setSide('draft')}>
              Draft
            </Pressed>
            <Pressed isPressed={draft === null} onPress={() => setSide('live')}>
              Live
            </Pressed>
          </Choice>
        )}
        {isManaged && (
          <Button class="small" disabled={read?.name !== name} onClick={() => setOpen('secrets')}>
            Secrets
          </Button>
        )}
        <Choice label="What to show" class="narrow">
          <Pressed isPressed={shown === 'talk'} onPress={() => show('talk')}>
            Chat
          </Pressed>
          <Pressed isPressed={shown === 'page'} onPress={() => show('page')}>
            Page
          </Pressed>
        </Choice>
      </div>
      <PageFrame page={!read ? null : draft === null ? live : route`/svc/_draft/${draft}/${app.id}/`} />
      <section
        class="chat-panel card"
        aria-label="Conversation"
        onDragOver={(event) => {
          if (event.dataTransfer?.types.includes('Files')) event.preventDefault();
        }}
        onDrop={(event) => {
          if (!event.dataTransfer || event.dataTransfer.files.length === 0) return;
          event.preventDefault();
          attachments.add(event.dataTransfer.files);
          focusMessage();
        }}
      >
        <Windows
          field={chosen}
          conversations={conversations}
          known={known}
          onChoose={choose}
          onNew={() => {
            begin({ kind: mode === 'full' && hasCode ? 'conversation' : 'window', id: newId() });
            setFreshMode(mode);
            focusMessage();
          }}
          onDelete={() => setOpen('delete')}
        />
        <section
          ref={log}
          class="chat-log"
          role="log"
          aria-label="Messages"
          // An area that scrolls must be reachable by keyboard.
          tabindex={0}
          onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
            isAtEnd.current = scrollHeight - scrollTop - clientHeight < 160;
          }}
        >
          {thread?.hasEarlier && (
            <Button class="small" onClick={() => void showEarlier()}>
              Show earlier messages
            </Button>
          )}
          {thread && thread.turns.length > 0 && (
            <ol>
              {thread.turns.map((turn) => (
                <TurnItem
                  key={turn.number}
                  app={app.id}
                  turn={turn}
                  answer={(requestId, optionId) => thread.answer(turn, requestId, optionId)}
                  onDrawn={scrollDown}
                  log={() => log.current}
                />
              ))}
            </ol>
          )}
          <WhatNext models={models} mode={mode} isNew={thread?.turns.length === 0 && !known} />
        </section>
        <Minted app={app.id} onKept={() => log.current?.focus({ preventScroll: true })} />
        {workspace !== null && (
          <DraftBar
            key={workspace}
            app={app.id}
            workspace={workspace}
            edits={edits}
            complain={complain}
            onPublished={() => setSide('live')}
          />
        )}
        <Composer
          field={composer}
          app={app.id}
          problem={problem}
          mode={mode}
          onMode={known === undefined && hasCode ? chooseMode : undefined}
          models={models}
          attachments={attachments}
          takesFiles={conversation.kind === 'conversation'}
          running={thread?.running ?? 0}
          onSend={() => void send()}
          onStop={() => void attempt(async () => await thread?.stop())}
        />
      </section>
      {open === 'secrets' && (
        <Dialog
          title={draft === null ? `Secrets of ${app.name}` : `Secrets of the draft of ${app.name}`}
          onClose={() => setOpen(null)}
        >
          <Secrets app={app.id} workspace={draft ?? undefined} />
        </Dialog>
      )}
      {open === 'delete' && (
        <Confirm
          title="Delete this conversation?"
          verb="Delete"
          onClose={() => setOpen(null)}
          onDone={async () => {
            await conversations.remove(conversation);
            begin(latest(conversations, state));
            setTimeout(() => chosen.current?.focus());
          }}
        >
          <p>Its messages are lost. The agent’s changes to the data stay.</p>
        </Confirm>
      )}
    </div>
  );
}

type WindowsProps = {
  field: RefObject<HTMLSelectElement | null>;
  conversations: Conversations;
  /** The one that is shown; undefined while nothing was said in it. */
  known: Conversation | undefined;
  onChoose: (key: string) => void;
  onNew: () => void;
  onDelete: () => void;
};

/** The list of conversations, and what can be done with the one that is shown. */
function Windows({ field, conversations, known, onChoose, onNew, onDelete }: WindowsProps) {
  const { person } = useGateway();
  return (
    <div class="chat-windows">
      <select
        ref={field}
        aria-label="Conversation"
        value={known?.key ?? ''}
        onChange={({ currentTarget }) => {
          const { value } = currentTarget;
          // It shows the new one once that is shown.
          currentTarget.value = known?.key ?? '';
          onChoose(value);
        }}
      >
        {!known && <option value="">New conversation</option>}
        {conversations.all.map((one) => (
          <option key={one.key} value={one.key}>
            {one.by && one.by.id !== person?.id ? `${one.by.name}: ` : ''}
            {one.title || one.id}
          </option>
        ))}
        {conversations.hasMore && <option value={EARLIER}>Earlier conversations …</option>}
      </select>
      <Button class="small" onClick={onNew}>
        New
      </Button>
      {known && (
        <Button class="small" onClick={onDelete}>
          Delete
        </Button>
      )}
    </div>
  );
}
