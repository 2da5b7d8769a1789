/** Writes the next message: its text, its files, what the agent may work on, and which agent. */
import type { RefObject } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { GatewayError } from '../../gateway.ts';
import { Button } from '../../ui/parts.tsx';
import { plural } from '../../words.ts';
import { type Attachments, ChosenFiles } from './attachments.tsx';
import type { Mode } from './conversations.ts';
import { ADVICE } from './drawn-turn.ts';
import { ModelChoice, type Models } from './models.tsx';

/** Typed text that was not sent, by app: it is there again after a look at another view. */
export const unsent = new Map<string, string>();

type ComposerProps = {
  field: RefObject<HTMLTextAreaElement | null>;
  app: string;
  problem: Error | null;
  mode: Mode;
  /** Undefined where the mode cannot be chosen. */
  onMode: ((mode: Mode) => void) | undefined;
  models: Models;
  attachments: Attachments;
  /** Messages of this conversation take files. */
  takesFiles: boolean;
  running: number;
  onSend: () => void;
  onStop: () => void;
};

export function Composer({ field, app, problem, mode, onMode, models, attachments, ...rest }: ComposerProps) {
  const { takesFiles, running, onSend, onStop } = rest;
  const focus = () => field.current?.focus();
  const add = (files: FileList) => {
    attachments.add(files);
    focus();
  };
  const advice = problem instanceof GatewayError ? ADVICE[problem.code] : undefined;
  return (
    <form
      class="chat-form"
      onSubmit={(event) => {
        event.preventDefault();
        onSend();
      }}
    >
      {problem && (
        <p class="problem" role="alert">
          {problem.message} {advice}
        </p>
      )}
      <ChosenFiles attachments={attachments} onDropped={focus} />
      <Message field={field} app={app} onSend={onSend} onFiles={add} />
      <div class="line">
        <select
          aria-label="What the agent may work on"
          value={mode}
          disabled={!onMode}
          onChange={({ currentTarget }) => onMode?.(currentTarget.value as Mode)}
        >
          <option value="data">Data</option>
          <option value="full">Data and code</option>
        </select>
        <ModelChoice models={models} />
        <Sending running={running} onStop={onStop} onFiles={takesFiles ? add : undefined} focus={focus} />
      </div>
    </form>
  );
}

type MessageProps = {
  field: RefObject<HTMLTextAreaElement | null>;
  app: string;
  onSend: () => void;
  onFiles: (files: FileList) => void;
};

function Message({ field, app, onSend, onFiles }: MessageProps) {
  useLayoutEffect(() => {
    if (field.current) field.current.value = unsent.get(app) ?? '';
  }, [app]);
  return (
    <textarea
      ref={field}
      rows={2}
      aria-label="Message"
      placeholder="Message"
      onInput={({ currentTarget }) => unsent.set(app, currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        onSend();
      }}
      onPaste={(event) => {
        // Documents come as a picture of the text too.
        const data = event.clipboardData;
        if (!data || data.files.length === 0 || data.types.includes('text/plain')) return;
        event.preventDefault();
        onFiles(data.files);
      }}
    />
  );
}

type SendingProps = {
  running: number;
  onStop: () => void;
  onFiles: ((files: FileList) => void) | undefined;
  focus: () => void;
};

function Sending({ running, onStop, onFiles, focus }: SendingProps) {
  const stop = useRef<HTMLDivElement>(null);
  const file = useRef<HTMLInputElement>(null);
  // Before the button goes: the focus would be lost with it.
  if (running === 0 && stop.current?.contains(document.activeElement)) focus();
  return (
    <div class="chat-send">
      <span class="hint" role="status">
        {running > 1 ? `${plural(running - 1, 'message')} waiting` : ''}
      </span>
      {onFiles && (
        <>
          <input
            ref={file}
            type="file"
            aria-label="Files"
            multiple
            hidden
            onChange={({ currentTarget }) => {
              if (currentTarget.files) onFiles(currentTarget.files);
              currentTarget.value = '';
            }}
          />
          <Button class="small" onClick={() => file.current?.click()}>
            Attach
          </Button>
        </>
      )}
      <div ref={stop} hidden={running === 0}>
        <Button class="small" onClick={onStop}>
          Stop
        </Button>
      </div>
      <Button type="submit" class="small" kind="primary">
        Send
      </Button>
    </div>
  );
}
