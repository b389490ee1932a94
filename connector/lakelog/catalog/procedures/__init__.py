"""The procedures of `CALL sys.<procedure>`: the verbs of a table under the names that users of Paimon know."""
