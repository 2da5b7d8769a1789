/** One choice of a few, as a row of pills. */

type Props<Id extends string> = {
  /** Its own among the choices of a page. */
  name: string;
  label: string;
  choices: Readonly<Record<Id, string>>;
  value: Id;
  onChoose: (id: Id) => void;
};

export function Radios<Id extends string>({ name, label, choices, value, onChoose }: Props<Id>) {
  return (
    <fieldset class="choices" aria-label={label}>
      {(Object.entries(choices) as [Id, string][]).map(([id, text]) => (
        <label key={id}>
          <input type="radio" name={name} checked={id === value} onChange={() => onChoose(id)} />
          {text}
        </label>
      ))}
    </fieldset>
  );
}
