/** The page of the polls: their results as they come, and the vote of the person who has it open. */
import { openComposer } from './composer.js';
import { $, attempt, confirmed, el, iconButton, redraw, say, toast } from './ui.js';

const { svc } = window;
const PAGE = 20;
const MOST = 500;

/** Roles say here what the page offers; the gateway and the actions say what is allowed. */
const { user } = svc;
const mayVote = user !== null && user.role !== 'viewer';
const mayMake = user === null || !['viewer', 'voter'].includes(user.role);
const mayShare = user === null || ['owner', 'manager'].includes(user.role);

let polls = [];
let wanted = PAGE;
let unfollow = () => {};
/** What is chosen and not sent yet: the ids of options, by the id of the poll. */
const drafts = new Map();

// ---- Data ------------------------------------------------------------------------------------------------------------

function follow() {
  unfollow();
  const take = (list) => {
    polls = list;
    render();
  };
  unfollow = svc.live('list', { limit: wanted + 1 }, take, (error) => toast(error.message));
}

/** Sends a write that answers with the poll, which shows at once. Resolves to whether it was taken. */
function change(action, input, button) {
  return attempt(async () => {
    const poll = await svc.write({ action, input });
    polls = polls.map((one) => (one.id === poll.id ? poll : one));
    drafts.delete(poll.id);
    render();
  }, button);
}

async function vote({ id, question, options: [first] }, options, button) {
  const focused = button === document.activeElement;
  if (!(await change('vote', { poll: id, options }, button))) return;
  say(options.length === 0 ? `You took your vote back: ${question}` : `You voted: ${question}`);
  // The button is not there any more.
  if (focused) document.querySelector(`[data-focus="option-${options[0] ?? first.id}"]`)?.focus();
}

async function close({ id, question }) {
  if (!(await confirmed(`Close “${question}”? Votes stay as they are.`, 'Close it'))) return;
  if (await change('close', { id })) say(`Closed: ${question}`);
}

async function remove({ id, question, voters }) {
  const along = voters === 0 ? '' : voters === 1 ? ' One vote goes with it.' : ` ${voters} votes go with it.`;
  if (!(await confirmed(`Remove “${question}”?${along}`))) return;
  const removed = await attempt(() => svc.write({ action: 'remove', input: { id } }));
  if (!removed) return;
  polls = polls.filter((poll) => poll.id !== id);
  render();
  say(`Removed: ${question}`);
}

// ---- View ------------------------------------------------------------------------------------------------------------

const moment = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const percent = new Intl.NumberFormat(undefined, { style: 'percent' });

function render() {
  const shown = polls.slice(0, wanted);
  const [open, closed] = [shown.filter((poll) => poll.open), shown.filter((poll) => !poll.open)];
  redraw($('open'), open.map(drawPoll), $('new'));
  redraw($('closed'), closed.map(drawPoll), $('new'));
  $('past').hidden = closed.length === 0;
  $('empty').hidden = open.length > 0;
  $('empty').textContent = mayMake
    ? 'No poll is open. Ask something: a question and two options are enough.'
    : 'No poll is open at the moment.';
  $('more').hidden = polls.length <= wanted || wanted >= MOST;
  $('sign-in').hidden = user !== null || open.length === 0;
  $('only-look').hidden = user === null || mayVote || open.length === 0;
}

function drawPoll(poll) {
  const { id, question, voters, manages } = poll;
  const canVote = mayVote && poll.open;
  const chosen = drafts.get(id) ?? mineOf(poll);
  const count = voters === 0 ? 'Nobody has voted yet' : voters === 1 ? '1 person voted' : `${voters} people voted`;
  const most = Math.max(...poll.options.map(({ votes }) => votes));
  const form = el(
    'form',
    { className: poll.open ? 'card poll' : 'card poll closed', 'aria-labelledby': `question-${id}` },
    el(
      'div',
      { className: 'head' },
      el('h3', { id: `question-${id}`, textContent: question }),
      ...(manages
        ? [iconButton('cross', `Remove: ${question}`, () => remove(poll), { className: 'icon delete' })]
        : []),
    ),
    el('p', { className: 'about', textContent: about(poll) }),
    el(
      'fieldset',
      { 'aria-labelledby': `question-${id}` },
      ...poll.options.map((option) => drawOption(poll, option, { canVote, chosen, isMost: option.votes === most })),
    ),
    el(
      'div',
      { className: 'row foot' },
      el('span', { textContent: count }),
      el('div', { className: 'row' }, ...drawButtons(poll, { canVote, chosen })),
    ),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    void vote(poll, [...(drafts.get(id) ?? mineOf(poll))], event.submitter);
  });
  return form;
}

const mineOf = ({ options }) => new Set(options.filter(({ mine }) => mine).map(({ id }) => id));
const isSame = (one, other) => one.size === other.size && [...one].every((id) => other.has(id));

function about({ several, named, closesAt, closedAt, open, madeBy }) {
  const over = closedAt ?? closesAt;
  const time = open ? closesAt !== null && `closes ${moment.format(closesAt)}` : `closed ${moment.format(over)}`;
  return [
    several ? 'Several choices' : 'One choice',
    named ? 'everybody sees who chose what' : 'without names',
    madeBy !== null && `by ${madeBy}`,
    time,
  ]
    .filter(Boolean)
    .join(' · ');
}

function drawOption(poll, { id, text, votes, names, mine }, { canVote, chosen, isMost }) {
  const { voters, several, open } = poll;
  const share = voters === 0 ? 0 : votes / voters;
  const input = el('input', {
    type: several ? 'checkbox' : 'radio',
    name: `poll-${poll.id}`,
    checked: chosen.has(id),
    'data-focus': `option-${id}`,
  });
  input.addEventListener('change', () => choose(poll, id, input.checked));
  const parts = [
    ...(canVote ? [input] : []),
    el(
      'span',
      { className: 'text' },
      text,
      ...(mine && !canVote ? [el('small', { textContent: 'your vote' })] : []),
      ...(names.length > 0 ? [el('small', { className: 'names', textContent: names.join(', ') })] : []),
    ),
    el('span', { className: 'votes' }, `${votes}`, el('span', { className: 'visually-hidden', textContent: ' votes' })),
    el('span', { className: 'share', 'aria-hidden': 'true', textContent: percent.format(share) }),
  ];
  const className = ['option', !open && isMost && votes > 0 && 'most', mine && 'mine'].filter(Boolean).join(' ');
  const row = el(canVote ? 'label' : 'div', { className }, ...parts);
  row.style.setProperty('--share', share);
  return row;
}

function choose(poll, option, isChosen) {
  const chosen = poll.several ? new Set(drafts.get(poll.id) ?? mineOf(poll)) : new Set();
  if (isChosen) chosen.add(option);
  else chosen.delete(option);
  if (isSame(chosen, mineOf(poll))) drafts.delete(poll.id);
  else drafts.set(poll.id, chosen);
  render();
}

function drawButtons(poll, { canVote, chosen }) {
  const { open, manages, question } = poll;
  const mine = mineOf(poll);
  const button = (text, onclick) =>
    el('button', {
      type: 'button',
      className: 'quiet',
      textContent: text,
      'aria-label': `${text}: ${question}`,
      onclick,
    });
  const buttons = [];
  if (manages && open) buttons.push(button('Close', () => close(poll)));
  if (!canVote) return buttons;
  const differs = !isSame(chosen, mine);
  if (mine.size > 0 && (!differs || chosen.size === 0))
    return [...buttons, button('Take my vote back', (event) => vote(poll, [], event.currentTarget))];
  const send = el('button', {
    type: 'submit',
    className: 'primary',
    textContent: mine.size === 0 ? 'Vote' : 'Change my vote',
    disabled: !differs,
  });
  return [...buttons, send];
}

// ---- Input -----------------------------------------------------------------------------------------------------------

$('new').hidden = !mayMake;
$('new').addEventListener('click', () => openComposer(follow));
$('share').hidden = !mayShare;
$('share').addEventListener('click', () => attempt(async () => svc.share()));
$('sign-in')
  .querySelector('button')
  .addEventListener('click', () => attempt(async () => svc.signIn()));
$('more').addEventListener('click', () => {
  wanted = Math.min(MOST, wanted + PAGE);
  follow();
});

follow();
