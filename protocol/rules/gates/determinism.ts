/** Lints automations: finds what differs from run to run, and what bypasses `ctx` (specification, "Handler rules"). */
import type { AnyNode, Pattern, Program } from 'acorn';
import { simple } from 'acorn-walk';
import { isNodeModule } from '../handler-imports.ts';
import type { DeterminismRule, Finding, Reach } from './rules.ts';
import { globalMember, type Names, staticKey, staticText } from './syntax.ts';

const RANDOM = 'differs from run to run; take the value from the input, or keep it with ctx.state.set.';
const REQUEST = 'bypasses the run: it ends neither with it nor at its deadline; use ctx.fetch.';

/** The globals that a rule is about. */
const GLOBALS = new Map<string, { rule: DeterminismRule; advice: string }>([
  ['Date.now', { rule: 'date-now', advice: 'reads the clock; use ctx.now, the time of the fire.' }],
  ['performance.now', { rule: 'performance-now', advice: 'reads the clock; use ctx.now, the time of the fire.' }],
  ['performance.nodeTiming', { rule: 'performance-now', advice: 'has times of the process; use ctx.now.' }],
  ['performance.timeOrigin', { rule: 'performance-now', advice: 'is a time of the thread; use ctx.now.' }],
  ['Math.random', { rule: 'math-random', advice: RANDOM }],
  ['crypto.randomUUID', { rule: 'random-id', advice: RANDOM }],
  ['crypto.getRandomValues', { rule: 'random-id', advice: RANDOM }],
  ['crypto.subtle.generateKey', { rule: 'random-id', advice: RANDOM }],
  ['fetch', { rule: 'raw-fetch', advice: REQUEST }],
  ['WebSocket', { rule: 'raw-fetch', advice: REQUEST }],
  ['EventSource', { rule: 'raw-fetch', advice: REQUEST }],
  ['XMLHttpRequest', { rule: 'raw-fetch', advice: REQUEST }],
  ['process', { rule: 'process', advice: "is the gateway's; take what the run needs from its input or from ctx." }],
]);
const LAST_NAMES = new Set([...GLOBALS.keys()].map((path) => path.slice(path.lastIndexOf('.') + 1)));

const CLOCK = 'reads the clock; use new Date(ctx.now), the time of the fire.';
const NODE = 'is no part of a run; use ctx, and files of the app.';

const inAutomations = ({ automation }: Reach): boolean => automation;

/** Every finding, in no order. */
export function checkDeterminism(program: Program, names: Names): Finding[] {
  const found = new Map<string, Finding>();

  const report = (rule: DeterminismRule, { start }: AnyNode, message: string): void => {
    const key = `${rule} ${start}`;
    if (!found.has(key)) found.set(key, { rule, at: start, message, applies: inAutomations });
  };
  const reportGlobal = (node: AnyNode, path: string[] | null): void => {
    const name = path?.join('.') ?? '';
    const hit = GLOBALS.get(name);
    if (hit !== undefined) report(hit.rule, node, `${name} ${hit.advice}`);
  };
  const reportModule = (node: AnyNode, source: AnyNode | null | undefined): void => {
    const name = source ? staticText(source) : null;
    if (name !== null && isNodeModule(name)) report('node-builtin', node, `The Node module "${name}" ${NODE}`);
  };

  /** `const { now } = Date`, and deeper patterns. */
  const destructure = (pattern: Pattern, path: string[] | null): void => {
    if (pattern.type === 'AssignmentPattern') destructure(pattern.left, path);
    if (pattern.type !== 'ObjectPattern' || path === null) return;
    for (const property of pattern.properties) {
      if (property.type === 'RestElement') continue;
      const key = staticKey(property.key, property.computed);
      const reached = key === null ? null : globalMember(path, key);
      reportGlobal(property, reached);
      destructure(property.value, reached);
    }
  };
  const assign = (target: Pattern, value: AnyNode | null | undefined): void => {
    if (value && target.type === 'ObjectPattern') destructure(target, names.globalPath(value));
  };

  simple(program, {
    Identifier: (node) => {
      if (GLOBALS.has(node.name) && names.isGlobal(node)) reportGlobal(node, [node.name]);
    },
    MemberExpression: (node) => {
      const key = staticKey(node.property, node.computed);
      if (key !== null && LAST_NAMES.has(key)) reportGlobal(node, names.globalPath(node));
    },
    VariableDeclarator: ({ id, init }) => assign(id, init),
    AssignmentExpression: ({ left, right }) => assign(left as Pattern, right),
    AssignmentPattern: ({ left, right }) => assign(left, right),
    NewExpression: (node) => {
      if (node.arguments.length === 0 && names.globalPath(node.callee)?.join('.') === 'Date')
        report('new-date', node, `new Date() ${CLOCK}`);
    },
    CallExpression: (node) => {
      const name = names.globalPath(node.callee)?.join('.');
      if (name === 'Date') report('new-date', node, `Date() ${CLOCK}`);
      if (name === 'require') report('node-builtin', node, `require() ${NODE}`);
    },
    ImportDeclaration: (node) => reportModule(node, node.source),
    ExportNamedDeclaration: (node) => reportModule(node, node.source),
    ExportAllDeclaration: (node) => reportModule(node, node.source),
    ImportExpression: (node) => reportModule(node, node.source),
  });
  return [...found.values()];
}
