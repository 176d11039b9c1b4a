from mix2fld.protocols.aggregation.outliers import far_statistics as far_statistics
from mix2fld.protocols.aggregation.outliers import trusted_statistics as trusted_statistics
from mix2fld.protocols.seed_intake import keep_once as keep_once
from mix2fld.protocols.seed_intake import take_in_seeds as take_in_seeds
from mix2fld.protocols.seed_screening import judge_labels as judge_labels
from mix2fld.protocols.suspects import contradicted as contradicted
from mix2fld.protocols.suspects import far_from_the_rest as far_from_the_rest
