/** Draws one turn: the message, and below it the agent's text, thoughts, tools and questions. */
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import { chosenLabel, type QuestionBlock, type ToolBlock } from '../../../protocol/agents/turn.ts';
import { useGateway } from '../../gateway-state.tsx';
import { Button } from '../../ui/parts.tsx';
import { AttachmentLinks } from './attachments.tsx';
import { ADVICE, detailsOf, headOf, type ShownTurn } from './drawn-turn.ts';
import { markdown } from './markdown.ts';

type ItemProps = {
  app: string;
  turn: ShownTurn;
  /** Answers a question of the agent. */
  answer: (requestId: string, optionId: string) => Promise<void>;
  /** Called when it has been drawn. */
  onDrawn: () => void;
  /** What gets the focus when what has it goes away. */
  log: () => HTMLElement | null;
};

export function TurnItem({ app, turn, answer, onDrawn, log }: ItemProps) {
  const { blocks, state } = turn.turn;
  const { person } = useGateway();
  const [, draw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    turn.onChange = () => draw(undefined);
    // It may have changed before it was looked at.
    draw(undefined);
    return () => {
      turn.onChange = () => {};
    };
  }, [turn]);
  useLayoutEffect(onDrawn);
  return (
    <li class="turn">
      {turn.by && turn.by.id !== person?.id && <p class="writer">{turn.by.name}</p>}
      <p class="message">{turn.message}</p>
      {turn.attached.length > 0 && <AttachmentLinks app={app} files={turn.attached} />}
      {blocks.length > 0 && (
        <div class="said-by-agent">
          {blocks.map((block, at) => {
            // Blocks are only ever added: their place is what they are known by.
            const key = `${at}`;
            if (block.kind === 'text')
              return <Text key={key} text={block.text} isRunning={state === 'running'} onDrawn={onDrawn} />;
            if (block.kind === 'thought')
              return (
                <details key={key} class="thought">
                  <summary>Thoughts</summary>
                  <p class="reasoning">{block.text}</p>
                </details>
              );
            if (block.kind === 'tool') return <Tool key={key} tool={block} done={block.ok} />;
            if (block.kind === 'question')
              return <Question key={key} question={block} isOpen={block.isOpen} answer={answer} log={log} />;
            return (
              <div key={key}>
                <p class="problem" role="alert">
                  {`${block.code}: ${block.message}`}
                </p>
                {ADVICE[block.code] && <p class="hint">{ADVICE[block.code]}</p>}
              </div>
            );
          })}
        </div>
      )}
      <p class="turn-status" role="status">
        {turn.status}
      </p>
    </li>
  );
}

/** Drawn again as it grows: the longer that takes, the less often. */
function Text({ text, isRunning, onDrawn }: { text: string; isRunning: boolean; onDrawn: () => void }) {
  const block = useRef<HTMLDivElement>(null);
  const wanted = useRef(text);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const took = useRef(0);
  wanted.current = text;
  useLayoutEffect(() => {
    const render = () => {
      timer.current = undefined;
      const startedAt = performance.now();
      block.current?.replaceChildren(markdown(wanted.current));
      took.current = performance.now() - startedAt;
      onDrawn();
    };
    if (isRunning) timer.current ??= setTimeout(render, Math.max(16, took.current * 5));
    else {
      clearTimeout(timer.current);
      render();
    }
  }, [text, isRunning]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return <div ref={block} class="text" />;
}

const TOOL_STATES = { true: ['✓', 'done'], false: ['✗', 'failed'], null: ['…', 'running'] } as const;

function Tool({ tool, done }: { tool: ToolBlock; done: boolean | null }) {
  const [sign, word] = TOOL_STATES[`${done}`];
  const [head, details] = useMemo(() => [headOf(tool), detailsOf(tool)], [tool, done]);
  return (
    <details class="tool">
      <summary>
        <b>{tool.toolName}</b> <code>{head}</code>
        <span class={`tool-state ${word}`} role="img" aria-label={word}>
          {sign}
        </span>
      </summary>
      <div class="tool-body">
        {details.map(([title, text]) => (
          <div key={title}>
            <p class="hint">{title}</p>
            <pre>
              <code>{text}</code>
            </pre>
          </div>
        ))}
      </div>
    </details>
  );
}

/** `isOpen` is that of the question, which changes. */
type QuestionProps = Pick<ItemProps, 'answer' | 'log'> & { question: QuestionBlock; isOpen: boolean };

function Question({ question, isOpen, answer, log }: QuestionProps) {
  const box = useRef<HTMLFieldSetElement>(null);
  const [isSent, setSent] = useState(false);
  const [problem, setProblem] = useState('');
  const { toolName, detail, options, requestId } = question;
  // Before the buttons go: the focus would be lost with them.
  const handOn = () => {
    if (box.current?.contains(document.activeElement)) log()?.focus({ preventScroll: true });
  };
  if (!isOpen) handOn();
  const choose = (optionId: string) => {
    handOn();
    setSent(true);
    setProblem('');
    answer(requestId, optionId).catch((error: Error) => {
      setSent(false);
      setProblem(error.message);
    });
  };
  return (
    <fieldset ref={box} class="permission" aria-live="assertive">
      <legend>May it do this?</legend>
      <pre>{detail === toolName ? toolName : `${toolName}\n${detail}`}</pre>
      {!isOpen ? (
        <p class="hint">{chosenLabel(question) ?? 'No answer: refused'}</p>
      ) : (
        <>
          <div class="line">
            {options.map(({ optionId, kind, label }) => (
              <Button
                key={optionId}
                class="small"
                kind={kind.startsWith('allow') ? 'primary' : 'plain'}
                disabled={isSent}
                onClick={() => choose(optionId)}
              >
                {label}
              </Button>
            ))}
          </div>
          <p class="problem" role="alert">
            {problem}
          </p>
        </>
      )}
    </fieldset>
  );
}
