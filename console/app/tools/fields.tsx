/** The fields of a form that was made from a JSON Schema. */
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Button } from '../../ui/parts.tsx';
import { fits, initialOf, nameOf, type Shape } from './input-shape.ts';

/** What is wrong, by the JSON Pointer of the value. */
type Issues = ReadonlyMap<string, string>;

type FieldProps = {
  shape: Shape;
  label: string;
  /** JSON Pointer of the value in the input. */
  at: string;
  required: boolean;
  value: unknown;
  issues: Issues;
  onChange: (value: unknown) => void;
};

export type InputFormProps = {
  shape: Shape;
  input: unknown;
  issues: Issues;
  onChange: (input: unknown) => void;
};

/** The fields of the input, without a frame around all of them. */
export function InputForm({ shape, input, issues, onChange }: InputFormProps) {
  return (
    <>
      {shape.kind === 'object' ? (
        shape.members.map((member) => (
          <SchemaField
            key={member.name}
            shape={member.shape}
            label={member.name}
            at={`/${escaped(member.name)}`}
            required={member.required}
            value={(input as Record<string, unknown>)?.[member.name]}
            issues={issues}
            onChange={(value) => onChange(withMember((input ?? {}) as Record<string, unknown>, member.name, value))}
          />
        ))
      ) : (
        <SchemaField shape={shape} label="input" at="" required value={input} issues={issues} onChange={onChange} />
      )}
      {shape.kind === 'object' && issues.has('') && (
        <p class="problem" role="alert">
          {issues.get('')}
        </p>
      )}
    </>
  );
}

export function SchemaField(props: FieldProps) {
  const { shape, label, at, required, issues, value, onChange } = props;
  const id = useId();
  const hint = shape.hint;
  const problem = issues.get(at);
  const described = [hint && `${id}-hint`, problem && `${id}-problem`].filter(Boolean).join(' ') || undefined;
  const isGroup = shape.kind === 'object' || shape.kind === 'list' || shape.kind === 'choice';
  const head = (
    <>
      {shape.title ?? label}
      {required ? null : <span class="hint"> optional</span>}
    </>
  );
  const below = (
    <>
      {hint !== undefined && (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {problem !== undefined && (
        <span class="problem" role="alert" id={`${id}-problem`}>
          {problem}
        </span>
      )}
    </>
  );
  if (isGroup) {
    const isLeftOut = value === undefined && shape.kind === 'object' && !required;
    return (
      <fieldset class="group" aria-describedby={described}>
        <legend class="label">{head}</legend>
        {below}
        {isLeftOut ? (
          <Button class="small" onClick={() => onChange(initialOf(shape, true))}>
            Add {label}
          </Button>
        ) : (
          <Group {...props} />
        )}
        {!isLeftOut && !required && shape.kind === 'object' && (
          <Button class="small" onClick={() => onChange(undefined)}>
            Leave {label} out
          </Button>
        )}
      </fieldset>
    );
  }
  return (
    <div class="field">
      <label class="label" for={id}>
        {head}
      </label>
      <Control {...props} id={id} described={described} isWrong={problem !== undefined} />
      {below}
    </div>
  );
}

function Group({ shape, at, value, issues, onChange, required, label }: FieldProps) {
  if (shape.kind === 'object') {
    const members = (value ?? {}) as Record<string, unknown>;
    return (
      <div class="stack">
        {shape.members.map((member) => (
          <SchemaField
            key={member.name}
            shape={member.shape}
            label={member.name}
            at={`${at}/${escaped(member.name)}`}
            required={member.required}
            value={members[member.name]}
            issues={issues}
            onChange={(next) => onChange(withMember(members, member.name, next))}
          />
        ))}
      </div>
    );
  }
  if (shape.kind === 'list') {
    const items = Array.isArray(value) ? value : [];
    const changed = (next: unknown[]) => onChange(next.length === 0 && !required ? undefined : next);
    return (
      <div class="stack">
        {items.map((item, index) => (
          <div class="list-item" key={index}>
            <SchemaField
              shape={shape.item}
              label={`${index + 1}`}
              at={`${at}/${index}`}
              required
              value={item}
              issues={issues}
              onChange={(next) => changed(items.with(index, next))}
            />
            <Button
              class="small"
              aria-label={`Remove ${index + 1} of ${label}`}
              onClick={() => changed(items.toSpliced(index, 1))}
            >
              Remove
            </Button>
          </div>
        ))}
        <Button class="small start" onClick={() => changed([...items, initialOf(shape.item, true) ?? ''])}>
          Add to {label}
        </Button>
      </div>
    );
  }
  return <Choice {...{ shape, at, value, issues, onChange, required, label }} />;
}

function Choice({ shape, at, value, issues, onChange, required, label }: FieldProps) {
  const options = shape.kind === 'choice' ? shape.options : [];
  const found = value === undefined && !required ? -1 : options.findIndex((option) => fits(option, value));
  const [picked, setPicked] = useState(found);
  // What was typed may fit several, or none while it is not complete.
  const at0 =
    picked >= 0 && (value === undefined || found < 0 || fits(options[picked] as Shape, value)) ? picked : found;
  const current = value === undefined && !required && picked < 0 ? -1 : Math.max(at0, required ? 0 : -1);
  const option = options[current];
  return (
    <div class="stack">
      <select
        aria-label={`Kind of ${label}`}
        value={current}
        onChange={({ currentTarget }) => {
          const next = Number(currentTarget.value);
          setPicked(next);
          const chosen = options[next];
          onChange(chosen && initialOf(chosen, true));
        }}
      >
        {!required && <option value={-1}>–</option>}
        {options.map((one, index) => (
          <option key={index} value={index}>
            {nameOf(one)}
          </option>
        ))}
      </select>
      {option && option.kind !== 'constant' && (
        <SchemaField
          key={current}
          shape={option}
          label={nameOf(option)}
          at={at}
          required
          value={value}
          issues={at === '' ? issues : new Map([...issues].filter(([path]) => path !== at))}
          onChange={onChange}
        />
      )}
    </div>
  );
}

type ControlProps = FieldProps & { id: string; described: string | undefined; isWrong: boolean };

function Control({ shape, required, value, onChange, id, described, isWrong }: ControlProps) {
  const common = { id, 'aria-describedby': described, 'aria-invalid': isWrong || undefined };
  switch (shape.kind) {
    case 'text': {
      // An optional text that is empty is left out.
      const typed = (text: string) => onChange(text === '' && !required ? undefined : text);
      const text = typeof value === 'string' ? value : '';
      if (shape.format === 'long')
        return <textarea {...common} rows={3} value={text} onInput={(event) => typed(event.currentTarget.value)} />;
      if (shape.format === 'datetime')
        return (
          <input
            {...common}
            type="datetime-local"
            step="1"
            value={localOf(text)}
            onInput={(event) => typed(isoOf(event.currentTarget.value))}
          />
        );
      if (shape.format === 'date')
        return <input {...common} type="date" value={text} onInput={(event) => typed(event.currentTarget.value)} />;
      return (
        <input
          {...common}
          placeholder={shape.example}
          value={text}
          onInput={(event) => typed(event.currentTarget.value)}
        />
      );
    }
    case 'number':
      return (
        <input
          {...common}
          type="number"
          inputMode={shape.isInteger ? 'numeric' : 'decimal'}
          step={shape.isInteger ? 1 : 'any'}
          min={shape.min}
          max={shape.max}
          value={typeof value === 'number' ? value : ''}
          onInput={(event) =>
            onChange(event.currentTarget.value === '' ? undefined : event.currentTarget.valueAsNumber)
          }
        />
      );
    case 'boolean':
      if (required)
        return (
          <input
            {...common}
            type="checkbox"
            checked={value === true}
            onChange={(event) => onChange(event.currentTarget.checked)}
          />
        );
      return <Options {...common} values={[true, false]} value={value} onChange={onChange} required={false} />;
    case 'enum':
      return <Options {...common} values={shape.values} value={value} onChange={onChange} required={required} />;
    case 'constant':
      if (required) return <output {...common}>{JSON.stringify(shape.value)}</output>;
      return <Options {...common} values={[shape.value]} value={value} onChange={onChange} required={false} />;
    default:
      return <JsonField {...common} value={value} onChange={onChange} />;
  }
}

type OptionsProps = {
  id: string;
  values: readonly unknown[];
  value: unknown;
  required: boolean;
  onChange: (value: unknown) => void;
};

function Options({ values, value, required, onChange, ...rest }: OptionsProps) {
  const texts = values.map((one) => JSON.stringify(one));
  return (
    <select
      {...rest}
      value={value === undefined ? '' : JSON.stringify(value)}
      onChange={({ currentTarget: { value: text } }) => onChange(text === '' ? undefined : JSON.parse(text))}
    >
      {(!required || value === undefined) && <option value="">–</option>}
      {values.map((one, index) => (
        <option key={texts[index]} value={texts[index]}>
          {typeof one === 'string' ? one : texts[index]}
        </option>
      ))}
    </select>
  );
}

/** Any value, as JSON text. What is not JSON yet changes nothing, and says so. */
export function JsonField({
  value,
  onChange,
  rows = 6,
  ...rest
}: {
  id?: string;
  rows?: number;
  'aria-label'?: string;
  value: unknown;
  onChange: (value: unknown) => void;
}) {
  const [text, setText] = useState(() => (value === undefined ? '' : JSON.stringify(value, null, 2)));
  const [problem, setProblem] = useState('');
  const field = useRef<HTMLTextAreaElement>(null);
  // The form does not run with what was there before.
  useLayoutEffect(() => field.current?.setCustomValidity(problem), [problem]);
  const typed = (next: string) => {
    setText(next);
    try {
      onChange(next.trim() === '' ? undefined : JSON.parse(next));
      setProblem('');
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <>
      <textarea
        {...rest}
        ref={field}
        {...(problem !== '' && { 'aria-invalid': true })}
        class="json"
        rows={rows}
        spellcheck={false}
        value={text}
        onInput={({ currentTarget }) => typed(currentTarget.value)}
      />
      {problem && (
        <span class="problem" role="alert">
          This is no JSON yet: {problem}
        </span>
      )}
    </>
  );
}

function withMember(members: Record<string, unknown>, name: string, value: unknown): Record<string, unknown> {
  const { [name]: _before, ...others } = members;
  return value === undefined ? others : { ...others, [name]: value };
}

/** The name of a member in a JSON Pointer. */
export const escaped = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');

/** A date and time as the browser's field has it, in the time zone of who looks. */
function localOf(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return '';
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function isoOf(local: string): string {
  const at = new Date(local);
  return Number.isNaN(at.getTime()) ? '' : at.toISOString();
}
