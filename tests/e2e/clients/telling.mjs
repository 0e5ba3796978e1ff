// What the JavaScript clients share: the question on standard input, the answer on standard output,
// and the scenarios. An application is given as a function of (question, token).
import { readFileSync } from "node:fs";

const plain = (thing) => JSON.parse(JSON.stringify(thing ?? null));

class Told {
  steps = [];

  // Await `work`, a list of what was seen; returns it, or an empty list. An error ends a step, not the run.
  async step(name, work) {
    try {
      const saw = plain(await work);
      this.steps.push({ step: name, saw });
      return saw;
    } catch (error) {
      this.steps.push({ step: name, error: error.constructor.name, text: String(error.message) });
      return [];
    }
  }
}

const scenarios = {
  async life(question, told, application) {
    const app = application(question, question.token);
    await told.step("card", app.card());
    await told.step("hello", app.send("hello"));
    const [quick] = await told.step("quick", app.send("quick"));
    await told.step("art", app.stream("art"));
    await told.step("get", app.get(quick.id));
    const [asked] = await told.step("input", app.send("input"));
    await told.step("answer", app.send("quick", asked.id));
    await told.step("cancel", app.stream("long 20", (id) => app.cancel(id)));
    await told.step("push", app.push(quick.id, question.hook));
    const stranger = application(question, question.stranger.token);
    await stranger.card();
    await told.step("stranger", stranger.get(question.stranger.task || quick.id));
  },

  async lists(question, told, application) {
    const app = application(question, question.token);
    await app.card();
    const [{ contextId }] = await told.step("quick", app.send("quick"));
    for (const text of ["art", "input"]) await told.step(text, app.send(text, "", contextId));
    await told.step("list", app.list(contextId, 2));
    await told.step("empty", app.list(crypto.randomUUID(), 2));
  },

  async refusal(question, told, application) {
    const app = application(question, question.token);
    await app.card();
    await told.step("send", app.send("quick"));
    await told.step("stream", app.stream("quick"));
  },
};

export async function tell(application) {
  const question = JSON.parse(readFileSync(0, "utf8"));
  const told = new Told();
  await scenarios[question.scenario](question, told, application);
  process.stdout.write(JSON.stringify(told.steps));
}

// The official way to add a credential to every call.
export const credential = (token) => ({
  headers: async () => ({ Authorization: `Bearer ${token}` }),
  shouldRetryWithHeaders: async () => undefined,
});
