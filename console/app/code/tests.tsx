/** Runs the tests of a draft, and shows how they ended. */
import { useEffect, useState } from 'preact/hooks';
import type { AppTests, TestResult } from '../../../protocol/answer-types.ts';
import { gateway } from '../../gateway.ts';
import { Button, Loading, Problem, State } from '../../ui/parts.tsx';
import { plural, took } from '../../words.ts';
import { save, unsavedOf } from './buffers.ts';
import type { Finding } from './editor.tsx';

type TestsProps = {
  app: string;
  workspace: string;
  /** Shows the place of a test. */
  onOpen: (finding: Finding) => void;
  onAgain: () => void;
  onClose: () => void;
};

/** Texts that are not saved are saved first. The tests end when it is closed. */
export function Tests({ app, workspace, onOpen, onAgain, onClose }: TestsProps) {
  const [answer, setAnswer] = useState<AppTests>();
  const [problem, setProblem] = useState<Error>();
  useEffect(() => {
    const own = new AbortController();
    const run = async () => {
      const source = { app, workspace, version: null };
      for (const file of unsavedOf(source)) await save(source, file);
      const params = { sid: workspace, id: app };
      const { signal } = own;
      return await gateway.call('POST /svc/_sessions/:sid/apps/:id/tests', { params }, { signal });
    };
    run().then(setAnswer, (error: Error) => !own.signal.aborted && setProblem(error));
    return () => own.abort();
  }, []);
  const isRunning = !answer && !problem;
  return (
    <section class="card tests" aria-label="Tests">
      <header class="line">
        <p role="status">{isRunning ? 'The tests run…' : answer && <Summary {...answer} />}</p>
        <span class="line heading-end">
          {!isRunning && (
            <Button class="small" onClick={onAgain}>
              Run again
            </Button>
          )}
          <Button class="small" onClick={onClose}>
            {isRunning ? 'Stop' : 'Close'}
          </Button>
        </span>
      </header>
      <Problem error={problem} />
      {isRunning && <Loading />}
      {answer && answer.tests.length > 0 && (
        <ul class="test-results">
          {failedFirst(answer.tests).map((test, at) => (
            <Result key={at} test={test} onOpen={onOpen} />
          ))}
        </ul>
      )}
    </section>
  );
}

const failedFirst = (tests: readonly TestResult[]): TestResult[] =>
  tests.toSorted((a, b) => Number(b.state === 'failed') - Number(a.state === 'failed'));

function Summary({ tests, error }: AppTests) {
  if (error) return <span class="problem">{error.message}</span>;
  if (tests.length === 0)
    return (
      <>
        The draft has no tests. They are files such as <code>tests/app.test.js</code>.
      </>
    );
  const count = (state: TestResult['state']) => tests.filter((test) => test.state === state).length;
  const failed = count('failed');
  const parts = [
    failed > 0 && `${failed} failed`,
    `${count('passed')} passed`,
    count('skipped') > 0 && `${count('skipped')} skipped`,
  ];
  return (
    <State
      state={failed > 0 ? 'failed' : 'ok'}
      text={`${plural(tests.length, 'test')}: ${parts.filter(Boolean).join(', ')}`}
    />
  );
}

const STATES = { passed: 'ok', failed: 'failed', skipped: 'skipped' } as const;

function Result({
  test: { name, file, line, state, ms, error },
  onOpen,
}: {
  test: TestResult;
  onOpen: TestsProps['onOpen'];
}) {
  return (
    <li>
      <div class="line">
        <State state={STATES[state]} text={state} />
        <b>{name}</b>
        {file !== null && (
          <Button kind="link" onClick={() => onOpen({ file, message: '', ...(line !== null && { line }) })}>
            {line === null ? file : `${file}:${line}`}
          </Button>
        )}
        <span class="hint">{took(ms)}</span>
      </div>
      {error !== undefined && (
        // An area that scrolls must be reachable by keyboard.
        <pre class="test-error" tabindex={0}>
          {error}
        </pre>
      )}
    </li>
  );
}
