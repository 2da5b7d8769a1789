/** Draws one turn of an agent: the message, and below it the agent's text, thoughts, tools and questions, in order. */
import { markdown } from '/svc/_console/markdown.js';
import { element, handOn, write } from '/svc/_console/view.js';

/** Of a tool's arguments in its head, and of a value below it. */
const HEAD_CHARS = 120;
const VALUE_CHARS = 20_000;

const WORDS = {
  'assistant.start': 'Working …',
  'tool.start': 'Working …',
  'reasoning.delta': 'Thinking …',
  aborted: 'Stopped',
};

/** What to do about an error, beside what it says. */
export const ADVICE = {
  NO_RUNNER:
    'On the gateway’s machine, install Codex (npm install -g @openai/codex, then codex login) or Claude Code (npm install -g @anthropic-ai/claude-code, then claude and /login), or name another agent or a model server as “runners” in the configuration.',
  AGENT_FAILED:
    'Send the message again. If that does not help, “svc agents” says what is known to be wrong with the agent.',
  MODE_UNAVAILABLE:
    'A conversation keeps its mode: begin a new one. Code can be edited on gateways with the git store.',
  OVERLOADED: 'Wait until one of the turns has ended, or stop one.',
  MERGE_CONFLICT:
    'Somebody else published these lines. Ask the agent to take the published version in, or use “svc sessions update”.',
};

export class TurnView {
  /** A list item. */
  element;
  turnId = null;
  state = 'running';
  #said = element('div', 'said-by-agent');
  #status = element('p', 'turn-status');
  /** The block that text goes to, and what it holds. */
  #text = null;
  #tools = new Map();
  #questions = new Map();
  #usage = {};
  #runner = '';
  #answer;

  /** `answer` is called with a request's id and the option that was chosen. */
  constructor(message, answer) {
    this.#answer = answer;
    this.#status.setAttribute('role', 'status');
    this.element = element('li', 'turn', element('p', 'message', message), this.#said, this.#status);
    this.say('Sending …');
  }

  /** The files that went with the message, as a list. */
  attach(files) {
    this.element.querySelector('.message').after(files);
  }

  /** A line below the turn, of what it is doing or how it ended. */
  say(text) {
    write(this.#status, text);
  }

  /** An event of its stream. */
  show(event) {
    if (WORDS[event.type]) this.say(WORDS[event.type]);
    switch (event.type) {
      case 'assistant.start':
        this.#runner = event.runner;
        if (event.model) this.#usage.model = event.model;
        break;
      case 'assistant.delta':
        this.say('Writing …');
        this.#append('text', event.delta);
        break;
      case 'reasoning.delta':
        this.#append('reasoning', event.delta);
        break;
      case 'final':
        if (this.#text?.kind !== 'text') this.#append('text', event.text);
        break;
      case 'tool.start':
        this.#tool(event);
        break;
      case 'tool.result':
        this.#tool(event).end(event);
        this.say('Working …');
        break;
      case 'permission':
        this.#ask(event);
        break;
      case 'permission.result':
        this.#questions.get(event.requestId)?.(event.optionId);
        break;
      case 'phase':
        this.say(event.detail ? `${event.phase}: ${event.detail}` : `${event.phase} …`);
        break;
      case 'usage':
        this.#add(event);
        break;
      case 'error':
        this.fail(event);
        break;
      case 'aborted':
        this.state = 'aborted';
        break;
      case 'end':
        this.end();
        break;
    }
  }

  /** A row of the history: what several events add up to. */
  showRow(row) {
    if (row.kind === 'assistant') {
      if (row.reasoning) this.#append('reasoning', row.reasoning);
      if (row.text) this.#append('text', row.text);
    } else if (row.kind === 'tool') {
      const shown = this.#tool({ ...row, toolCallId: row.toolCallId ?? `row-${row.seq}` });
      if (row.ok !== undefined || row.permission) shown.end({ ...row, ok: row.ok === true });
    }
  }

  fail({ code, message }) {
    this.state = 'error';
    const advice = ADVICE[code];
    const text = element('p', 'error', `${code}: ${message}`);
    text.setAttribute('role', 'alert');
    this.#append('other', text, ...(advice ? [element('p', 'aside', advice)] : []));
  }

  end(state = this.state) {
    this.state = state === 'running' ? 'ok' : state;
    this.#text?.render?.();
    for (const close of this.#questions.values()) close(null);
    const { model, inputTokens, outputTokens, costUsd } = this.#usage;
    const ended = {
      aborted: 'Stopped',
      interrupted: 'The gateway stopped in the middle of this turn',
      error: 'Failed',
    };
    const parts = [
      ended[this.state],
      this.#runner,
      model,
      (inputTokens || outputTokens) &&
        `${(inputTokens ?? 0).toLocaleString()} tokens in, ${(outputTokens ?? 0).toLocaleString()} out`,
      costUsd && `$${costUsd.toFixed(costUsd < 0.1 ? 4 : 2)}`,
    ];
    this.say(parts.filter(Boolean).join(' · '));
  }

  // ---- Text ------------------------------------------------------------------------------------------------------------

  #append(kind, ...content) {
    if (kind === 'other') {
      this.#text?.render?.();
      this.#text = null;
      this.#said.append(...content);
      return;
    }
    if (this.#text?.kind !== kind) {
      this.#text?.render?.();
      this.#text = kind === 'text' ? this.#textBlock() : this.#reasoningBlock();
    }
    this.#text.add(content[0]);
  }

  /** Drawn again as it grows: the longer that takes, the less often. */
  #textBlock() {
    const block = element('div', 'text');
    this.#said.append(block);
    let text = '';
    let timer = null;
    const render = () => {
      clearTimeout(timer);
      timer = null;
      block.replaceChildren(markdown(text));
      this.element.dispatchEvent(new CustomEvent('grown', { bubbles: true }));
    };
    let took = 0;
    const later = () => {
      const startedAt = performance.now();
      render();
      took = performance.now() - startedAt;
    };
    const add = (more) => {
      text += more;
      timer ??= setTimeout(later, Math.max(16, took * 5));
    };
    return { kind: 'text', add, render };
  }

  #reasoningBlock() {
    const text = element('p', 'reasoning');
    this.#said.append(element('details', 'thought', element('summary', '', 'Thoughts'), text));
    return { kind: 'reasoning', add: (more) => text.append(more) };
  }

  // ---- Tools -----------------------------------------------------------------------------------------------------------

  /** Some agents use an id again: it is another call once the first has its result. */
  #tool({ toolCallId, toolName, args, sql }) {
    const known = this.#tools.get(toolCallId);
    if (known) return known;
    const given = sql ?? (args === undefined ? '' : JSON.stringify(args));
    const state = element('span', 'tool-state', '…');
    state.setAttribute('aria-label', 'running');
    const head = element(
      'summary',
      '',
      element('b', '', toolName),
      ' ',
      element('code', '', short(given, HEAD_CHARS)),
      state,
    );
    const body = element('div', 'tool-body');
    const add = (title, value) => {
      if (value === undefined || value === '') return;
      const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
      body.append(element('p', 'aside', title), element('pre', '', element('code', '', short(text, VALUE_CHARS))));
    };
    add(sql ? 'Statement' : 'Arguments', sql ?? args);
    const end = ({ ok, result, errorText, permission }) => {
      this.#tools.delete(toolCallId);
      state.textContent = ok ? '✓' : '✗';
      state.classList.toggle('error', !ok);
      state.setAttribute('aria-label', ok ? 'done' : 'failed');
      if (permission) add(ok ? 'Allowed' : 'Refused', permission.detail);
      add('Result', result);
      add('Error', errorText);
    };
    this.#append('other', element('details', 'tool', head, body));
    const shown = { end };
    this.#tools.set(toolCallId, shown);
    return shown;
  }

  // ---- Questions -------------------------------------------------------------------------------------------------------

  /** With `optionId` the policy of the runner has answered already. */
  #ask({ requestId, toolName, detail, options, optionId: answered }) {
    const told = [element('pre', '', detail === toolName ? toolName : `${toolName}\n${detail}`)];
    const box = element('fieldset', 'permission', element('legend', '', 'May it do this?'), ...told);
    const buttons = options.map(({ optionId, kind, label }) => {
      const button = element('button', kind.startsWith('allow') ? 'primary' : 'small', label);
      button.type = 'button';
      button.addEventListener('click', () => {
        handOn(box, this.element.parentElement);
        for (const other of buttons) other.disabled = true;
        this.#answer(requestId, optionId).catch((error) => {
          for (const other of buttons) other.disabled = false;
          write(problem, error.message);
        });
      });
      return button;
    });
    const problem = element('p', 'error');
    problem.setAttribute('role', 'alert');
    box.append(element('div', 'line', ...buttons), problem);
    box.setAttribute('aria-live', 'assertive');
    this.#append('other', box);
    this.#questions.set(requestId, (optionId) => {
      this.#questions.delete(requestId);
      const chosen = options.find((option) => option.optionId === optionId)?.label ?? 'No answer: refused';
      handOn(box, this.element.parentElement);
      box.replaceChildren(...told, element('p', 'aside', chosen));
    });
    if (answered === undefined) this.say('Waiting for your answer');
    else this.#questions.get(requestId)(answered);
  }

  #add({ type: _, model, ...numbers }) {
    if (model) this.#usage.model = model;
    for (const [name, value] of Object.entries(numbers)) {
      if (typeof value === 'number') this.#usage[name] = (this.#usage[name] ?? 0) + value;
    }
  }
}

function short(text, chars) {
  return text.length > chars ? `${text.slice(0, chars - 1)}…` : text;
}
