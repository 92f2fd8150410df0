/* The order of the search's hits: a page that explains a word comes before the glossary's line on it,
   and before pages that name everything once. */
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    if (page === "glossary") return score - 10;
    return ["changelog", "benchmarks", "comparison"].includes(page) ? score / 2 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
